"""What the command line says of an error in using a model file: is it the file's, or a defect of lmgp?"""

from pathlib import Path
from typing import Any

import pytest

from lmgp.cli import main
from tests.saving.rewriting import rewritten

USES = {
    "predict": ["predict", "model.lmgp", "test.csv"],
    "a grid": ["predict", "model.lmgp", "--grid", "lon=0:1:3", "lat=0:1:3"],
    "score": ["score", "model.lmgp", "train.csv"],
    "plot": ["plot", "model.lmgp"],
    "info": ["info", "model.lmgp"],
}
TOLD = "lmgp: error: model.lmgp can be read, but not be used so (TypeError: of lmgp). "


@pytest.fixture
def defect(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in what all uses of the model of these tests do."""

    def fail(*_: Any, **__: Any) -> None:
        raise TypeError("of lmgp")

    monkeypatch.setattr("lmgp.cli.info.facts", fail)
    monkeypatch.setattr(type(model), "_in_batches", fail)


@pytest.mark.parametrize("use", USES)
def test_a_defect_shows_itself_where_the_file_is_as_it_was_written(use: str, folder: Path, defect: None) -> None:
    with pytest.raises(TypeError, match="of lmgp"):
        main(USES[use])


@pytest.mark.parametrize("use", USES)
def test_a_file_of_another_version_may_be_the_cause(
    use: str, folder: Path, defect: None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "model.lmgp"
    path.write_bytes(rewritten(path.read_bytes(), lambda header, _: header.update(lmgp="0.0.1")))
    assert main(USES[use]) == 2
    assert capsys.readouterr().err.startswith(TOLD)


def test_what_fails_before_a_model_is_read_is_no_fault_of_its_file(
    folder: Path, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise TypeError("of lmgp")

    (folder / "model.lmgp").write_bytes(b"no model")
    monkeypatch.setattr("lmgp.cli.models.loaded_model", fail)
    with pytest.raises(TypeError, match="of lmgp"):
        main(USES["predict"])
