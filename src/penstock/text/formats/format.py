"""A format: the function that makes samples of records of one dtype, and what it uses. Knows no single dtype."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from penstock.text.errors import Rejected
from penstock.text.formats.sample import FLAGS, Record, Sample, Tokens

Modality = Literal["text", "image", "video", "audio"]
FormatFunction = Callable[[Record, Tokens], Mapping[str, Any] | None]

# Keys of a ``tokens`` dict: the tokens around what a role says, and around a tool call.
SYSTEM = ("system_start", "system_end")
USER = ("user_start", "user_end")
ASSISTANT = ("assistant_start", "assistant_end")
TURNS = SYSTEM + USER + ASSISTANT
TOOL_CALL = ("tool_call", "tool_call_end")

_NO_FLAGS = dict.fromkeys(FLAGS, False)


@dataclass(frozen=True)
class Format:
    """A function ``fn(record, tokens)`` and its description.

    A format looks at whether a medium is there, never into it: an index may leave out the bytes of media.

    Attributes:
        dtype: Name in configs.
        modality: Modality that the samples count towards, for caps per modality.
        function: Function that returns a ``Sample``. It returns None or raises ``Rejected`` for an unusable record.
        tokens: Keys of the ``tokens`` dict that samples need if they are rendered with one.
        media: Columns that may hold the bytes of media, in lower case.
        accepts_all: Whether the function accepts every record. Where samples are taken as the function makes them, an
            index then need not call it.
        system: System prompt for conversations without one, unless the source has its own.
        version: Version of the samples that a built-in format makes. Fingerprints hold it in place of the function's
            source text: increase it whenever a sample changes. None for a user's function.
    """

    dtype: str
    modality: Modality
    function: FormatFunction
    tokens: tuple[str, ...] = ()
    media: tuple[str, ...] = ()
    accepts_all: bool = False
    system: str = ""
    version: int | None = None

    def __call__(self, record: Record, tokens: Tokens) -> Sample:
        """Return the sample of a record.

        Args:
            record: Columns of the record.
            tokens: Special tokens; empty if samples are rendered with the tokenizer's chat template.

        Raises:
            Rejected: If the record cannot be used, or the function raised an exception, which is then the cause.
            TypeError: If the function returned something other than a ``Sample``.
        """
        try:
            made = self.function(record, tokens)
        except Rejected:
            raise
        except Exception as error:
            raise Rejected(f"the format raised {shown_error(error, record)}") from error
        if made is None:
            raise Rejected("the format returned None")
        if not isinstance(made, Mapping) or ("messages" in made) == ("text" in made):
            raise TypeError(
                f"the format of dtype {self.dtype!r} must return a dict with either 'messages' or 'text', or None; "
                f"it returned {_shown(made)}"
            )
        fault = _fault(made["messages"]) if "messages" in made else ""
        if fault:
            raise Rejected(f"the format returned {fault}")
        return cast(Sample, {**_NO_FLAGS, **made, "dtype": self.dtype})


def modality_of(dtype: str) -> Modality:
    """Return the modality of a dtype, from its name."""
    if dtype.startswith("video") or dtype == "image_to_video":
        return "video"
    if dtype.startswith("image_") or dtype in ("vision", "generation", "ui_to_code"):
        return "image"
    return "audio" if dtype.startswith("voice_") else "text"


def _fault(messages: object) -> str:
    """Return what is wrong with the shape of messages; empty if a template can write them."""
    if not isinstance(messages, list | tuple):
        return "messages that are not a list"
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            return "a message without a role"
        content = message.get("content")
        if not (content is None or isinstance(content, str) or _are_parts(content)):
            return "content that is neither a text nor a list of parts"
        if not all(map(_is_call, message.get("tool_calls") or ())):
            return "a tool call without the name of a function"
    return ""


def _are_parts(content: object) -> bool:
    if not isinstance(content, list | tuple):
        return False
    return all(
        isinstance(part, Mapping)
        and isinstance(part.get("text") if part.get("type") == "text" else part.get("type"), str)
        for part in content
    )


def _is_call(call: object) -> bool:
    function = call.get("function") if isinstance(call, Mapping) else None
    return isinstance(function, Mapping) and isinstance(function.get("name"), str)


def _shown(made: object) -> str:
    return f"a dict with {', '.join(map(str, made))}" if isinstance(made, Mapping) else f"a {type(made).__name__}"


def shown_error(error: Exception, record: Record) -> str:
    """Return the type of an error; for a KeyError, also the missing column.

    A key that is a value of the record is not shown: there would be a reason per record.
    """
    key = error.args[0] if isinstance(error, KeyError) and error.args else None
    if isinstance(key, str) and key not in str(list(record.values())):
        return f"KeyError {key[:40]!r}"
    return type(error).__name__
