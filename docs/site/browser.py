"""Look at the pages of the site in Chromium: what is clipped, too wide, without words or in the console.

    pip install playwright
    python docs/site/browser.py [--html FOLDER] [--chromium PROGRAM] [PAGE ...]

Each page is loaded at widths of 1,280, 768 and 390 pixels, on light and on dark ground. A page that scrolls sideways,
code that is cut off, text or a table beyond its column, an image without words in its place, and an error in the
console are said, and end with status 1. What programs print may scroll by itself on screens narrower than 1,280 pixels.
"""

import argparse
import logging
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
WIDTHS, GROUNDS = (1280, 768, 390), ("light", "dark")
FAULTS = """() => {
  const faults = [], wide = e => e.scrollWidth > e.clientWidth + 1, root = document.documentElement;
  const printed = '.highlight-none, .highlight-text, .cell_output';
  const start = e => e.textContent.trim().slice(0, 50), column = document.querySelector('.bd-article');
  const scrolls = e => e && (['auto', 'scroll'].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  if (wide(root)) faults.push('the page scrolls sideways');
  for (const e of document.querySelectorAll('.bd-article pre'))
    if (wide(e) && (innerWidth >= 1280 || !e.closest(printed))) faults.push('code is cut off: ' + start(e));
  for (const e of document.querySelectorAll('.bd-article table'))
    if (e.getBoundingClientRect().right > column.getBoundingClientRect().right + 2 && !scrolls(e))
      faults.push('a table is too wide: ' + start(e));
  for (const e of document.querySelectorAll('.bd-article p, .bd-article li, .bd-article h1, .bd-article h2'))
    if (e.clientWidth && wide(e) && getComputedStyle(e).overflowX === 'visible')
      faults.push('text is too wide: ' + start(e));
  for (const e of document.images) {
    if (!e.alt.trim()) faults.push('an image has no words in its place: ' + e.src);
    if (!e.complete || !e.naturalWidth) faults.push('an image is not there: ' + e.src);
  }
  return faults;
}"""


def faults(pages, chromium):
    """Yield what is wrong with each page, at each width and on each ground."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for width in WIDTHS:
            for ground in GROUNDS:
                tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=ground)
                said = []
                tab.on("console", lambda message, said=said: said.append(message) if message.type == "error" else None)
                tab.on("pageerror", lambda error, said=said: said.append(error))
                for page in pages:
                    said.clear()
                    tab.goto(page.as_uri())
                    told = [f"the console has {getattr(one, 'text', one)}" for one in said]
                    yield from (
                        f"{page.name}, {width} pixels, {ground}: {fault}" for fault in tab.evaluate(FAULTS) + told
                    )
                tab.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--html", type=Path, default=ROOT / "build/site/html", metavar="FOLDER")
    parser.add_argument("--chromium", metavar="PROGRAM", help="default: the one that playwright installs")
    parser.add_argument(
        "pages", nargs="*", metavar="PAGE", help="such as docs/inputs.html; default: all but the sources"
    )
    args = parser.parse_args()
    html = args.html.resolve()
    pages = [html / page for page in args.pages]
    if not pages:
        pages = [
            page
            for page in sorted(html.rglob("*.html"))
            if page.relative_to(html).parts[0] not in ("_modules", "_static")
        ]
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    found = 0
    for fault in faults(pages, args.chromium):
        found += 1
        logging.error(fault)
    logging.info("%d pages, %d faults", len(pages), found)
    raise SystemExit(found > 0)


if __name__ == "__main__":
    main()
