"""What is wrong with a folder of HTML pages: broken links, images without words, and what is loaded from elsewhere."""

from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

# Of these a browser loads what they name; a link (<a>) it only follows.
LOADS = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}
NO_LOAD = {"canonical", "prev", "next", "index", "search", "author", "copyright"}


class Page(HTMLParser):
    """The links, the anchors and the images of a page."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded, self.silent = set(), [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag == "img" and not (found.get("alt") or "").strip():
            self.silent.append(found.get("src", ""))
        loads = found.get(LOADS.get(tag, ""))
        if loads and not (tag == "link" and set((found.get("rel") or "").split()) & NO_LOAD):
            self.loaded.append(loads)


def faults(folder):
    """Return what is wrong with the pages of a folder, one line each."""
    paths = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.relative_to(folder).parts]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in paths}
    found = [] if pages else [f"{folder} has no pages"]
    for path, page in pages.items():
        name = path.relative_to(folder)
        found += [f"{name}: the image {source} has no words in its place (alt)" for source in page.silent]
        found += [f"{name}: {one} is loaded from elsewhere" for one in page.loaded if urlsplit(one).netloc]
        for link in [*page.links, *page.loaded]:
            if not _leads_somewhere(link, path, folder, pages):
                found.append(f"{name}: the link {link} leads nowhere")
    for style in sorted(folder.rglob("*.css")):
        text = style.read_text(encoding="utf-8", errors="replace")
        if "url(http" in text or "url(//" in text or "@import url(" in text:
            found.append(f"{style.relative_to(folder)}: a style is loaded from elsewhere")
    return found


def _leads_somewhere(link, path, folder, pages):
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True  # elsewhere: not looked at, there may be no network
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.is_relative_to(folder.resolve()) or not target.is_file():
        return False
    anchor = unquote(parts.fragment)
    return not anchor or target not in pages or anchor in pages[target].anchors
