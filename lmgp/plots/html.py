"""Pages of HTML that need no network and read on a narrow screen, from the templates of this package."""

import base64
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def page(template: str, **values: Any) -> bytes:
    """Fill in a template; what it shows is escaped.

    Parameters
    ----------
    template : str
        A file of ``lmgp/plots/templates`` that extends ``base.html``.
    **values
        What the template names; ``title`` always.

    Returns
    -------
    bytes
        The content of the file, in UTF-8.
    """
    environment = Environment(
        loader=PackageLoader("lmgp.plots"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["base64"] = lambda png: base64.b64encode(png).decode()
    environment.filters["pixels"] = lambda png: int.from_bytes(png[16:20], "big")  # the width, where each PNG has it
    return environment.get_template(template).render(values).encode()
