"""An HTML file without scripts, in the style of all pages. Knows nothing of what it shows.

Its Content-Security-Policy allows its own style sheet and embedded media, and nothing else.
"""

from base64 import b64encode
from hashlib import sha256
from pathlib import Path

from penstock.manifest.publish import errors_naming
from penstock.observe.page.markup import Markup, element

_STYLE = Path(__file__).with_name("page.css")
_HEAD_CHARACTERS = 4_000  # of a page, which name its generator


def document(title: str, body: Markup, rules: str, generator: str) -> str:
    """Return a whole file.

    Args:
        title: Title of the page.
        body: Content.
        rules: Further rules of the style sheet.
        generator: Command that makes the page.
    """
    style = _STYLE.read_text() + rules
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; media-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="generator", content=generator),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", Markup(style)),
    )
    return "<!doctype html>\n" + element("html", head, element("body", body), lang="en")


def check_is_page(path: Path, generator: str) -> None:
    """Check that a file does not exist, or is a page of the same command, which may be replaced.

    Raises:
        FileExistsError: If it is another file.
    """
    if not path.exists():
        return
    if path.is_file():
        with path.open(encoding="utf-8", errors="replace") as file:
            if f'content="{generator}"' in file.read(_HEAD_CHARACTERS):
                return
    raise FileExistsError(f"{path} exists and is not a page of {generator}: choose another name")


def write_page(path: Path, page: str) -> None:
    """Write a page. It appears whole."""
    with errors_naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(page, encoding="utf-8")
        partial.replace(path)
