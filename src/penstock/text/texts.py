"""Records -> text -> tokens, as a run is configured: format, template and tokenizer in one. Knows no file, no batch."""

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from penstock.config.errors import ConfigError
from penstock.readers.errors import first_line
from penstock.text.chattemplate import ChatTemplate
from penstock.text.errors import Rejected
from penstock.text.formats import Format, Sample
from penstock.text.labels import Encoded, Encoder, TooLong, pad_id_of, require_fast
from penstock.text.rendered import Rendered
from penstock.text.templates import Template, TokensTemplate
from penstock.text.tokenizeridentity import tokenizer_identity
from penstock.text.trained import TrainOn

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

_OWN_TOKENS = ("bos_token", "eos_token")  # that are added to texts, also where no template names them


class TokenizerOwner(Protocol):
    """An object that has a tokenizer, such as a multimodal processor.

    Attributes:
        key: Digest of all that it adds to the length of a sample.
    """

    @property
    def key(self) -> str: ...

    def load_tokenizer(self) -> "PreTrainedTokenizerFast":
        """Return a copy of the tokenizer."""
        ...


class RenderedSample(NamedTuple):
    """A record after its format and its template."""

    sample: Sample
    rendered: Rendered


class Texts:
    """Makes tokens of records. Any number of threads may use it. It pickles if the tokenizer does.

    Args:
        tokenizer: Fast tokenizer of transformers, or the folder or hub model to load one from. None with an ``owner``.
        owner: Object whose tokenizer is used, such as a multimodal processor.
        tokens: Special tokens by name, used in place of the tokenizer's chat template if given.
        max_length: Maximum number of tokens per sample.
        train_on: Messages that are trained.
        too_long: Whether a longer sample is cut or rejected.
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerFast | str | None",
        *,
        owner: TokenizerOwner | None = None,
        tokens: Mapping[str, str] | None = None,
        max_length: int = 1024,
        train_on: TrainOn = "assistant",
        too_long: TooLong = "cut",
    ) -> None:
        self._given = tokenizer
        self._owner = owner
        self.tokens = tokens
        self.max_length = max_length
        self._train_on: TrainOn = train_on
        self.too_long: TooLong = too_long

    def __getstate__(self) -> dict[str, object]:
        kept = ("_given", "_owner", "tokens", "max_length", "_train_on", "too_long")
        return {name: self.__dict__[name] for name in kept}

    def load_tokenizer(self) -> "PreTrainedTokenizerFast":
        """Return the tokenizer, loaded once per process; a copy of one that was given.

        Raises:
            ConfigError: If it can't be loaded, or is not a fast one.
        """
        return self._tokenizer

    @cached_property
    def _tokenizer(self) -> "PreTrainedTokenizerFast":
        loaded = self._new_tokenizer()
        require_fast(loaded)
        return loaded

    def _new_tokenizer(self) -> "PreTrainedTokenizerFast":
        if self._owner is not None:
            return self._owner.load_tokenizer()
        assert self._given is not None
        if not isinstance(self._given, str):
            return copy.deepcopy(self._given)  # whose padding and truncation its owner may set at any time
        return cast("PreTrainedTokenizerFast", load_tokenizer("chat.tokenizer", self._given))  # others are refused

    @cached_property
    def _template(self) -> Template:
        if self.tokens is not None:
            return TokensTemplate(self.tokens, train_on=self._train_on)
        return ChatTemplate(self._tokenizer, train_on=self._train_on)

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self._tokenizer, max_length=self.max_length, too_long=self.too_long, owned=True)

    @property
    def pad_id(self) -> int:
        return pad_id_of(self._tokenizer)

    def write(self, record: Mapping[str, Any], format: Format, system: str | None) -> RenderedSample:
        """Return a record as text.

        Args:
            record: Record as its file has it.
            format: Format of the record.
            system: System message for a conversation without one.

        Raises:
            Rejected: If the record can't be used.
        """
        sample = format(record, self.tokens or {})
        return RenderedSample(sample, self._template.render(sample, system=system or format.system or None))

    def encode(self, rendered: Sequence[Rendered]) -> list[Encoded | Rejected]:
        """Return the tokens of each text, or why it cannot be used."""
        return self._encoder.encode(rendered)

    @cached_property
    def key(self) -> str:
        """A digest of all that tokens and labels depend on, except formats."""
        _ = self._template  # without a chat template, this says what to do
        _ = self._encoder  # sets padding and truncation off
        template = json.dumps(self.tokens if self.tokens is not None else self._tokenizer.chat_template, sort_keys=True)
        tokens = self._tokenizer.special_tokens_map
        # Others are in the vocabulary; which of them have a name in this map differs between releases.
        special = {name: str(tokens[name]) for name in sorted(tokens) if name in _OWN_TOKENS or name in template}
        options: list[object] = [self.max_length, self._train_on, self.too_long]
        if self._owner is not None:
            options.append(self._owner.key)
        about = json.dumps([tokenizer_identity(self._tokenizer.backend_tokenizer), special, template, options])
        return hashlib.sha256(about.encode()).hexdigest()[:16]


def require_folder(key: str, name: str, what: str, patterns: Sequence[str]) -> None:
    """Check that a folder has what is to be loaded: the error of transformers would be about hub names.

    Args:
        key: Key of the config, for the message.
        name: Folder, or a model on the hub.
        what: What is to be loaded, for the message.
        patterns: File patterns, of which the folder must match at least one.

    Raises:
        ConfigError: If the folder does not exist, is a file, or has no such file.
    """
    folder = Path(name)
    if folder.is_file():
        raise ConfigError(f"{key}: {name} is a file; name the folder that it is in, {folder.parent}")
    if not folder.is_dir() and name.startswith((".", "/", "~")):
        raise ConfigError(f"{key}: there is no folder {name}")
    if folder.is_dir() and not any(next(folder.glob(pattern), None) for pattern in patterns):
        example = patterns[0].strip("*")
        raise ConfigError(f"{key}: there is no {what} in the folder {name}, such as {example}")


def load_tokenizer(key: str, name: str) -> "PreTrainedTokenizerBase":
    """Return a tokenizer of transformers.

    Args:
        key: Key of the config that names it, for messages.
        name: Folder, or name of a model on the hub.

    Raises:
        ConfigError: If it can't be loaded.
    """
    require_folder(key, name, "tokenizer", ("tokenizer.json", "*token*", "*vocab*", "*.model"))
    from transformers import AutoTokenizer

    try:
        return cast("PreTrainedTokenizerBase", AutoTokenizer.from_pretrained(name, trust_remote_code=False))
    except (OSError, ValueError) as error:
        either = "" if Path(name).is_dir() else " There is no folder of this name either."
        raise ConfigError(f"{key}: {name!r} can't be loaded: {first_line(error)}{either}") from None
