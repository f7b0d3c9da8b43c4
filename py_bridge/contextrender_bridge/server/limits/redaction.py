"""Redaction: rules find secrets in messages, and replace them before messages are processed.

Equal messages are equal after redaction. So digests and prefixes are valid for a client that always
sends the originals. It needs the extra `redact` (RE2), whose time is linear in the text's length.

Long because the rules are here, too.
"""

import importlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.installing import how_to_install

RULES: Final = {
    "keys": (
        r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}|\bgh[oprsu]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}"
        r"|\bglpat-[\w-]{16,}|\bxox[a-z]-[\w-]{10,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
        r"|\bAIza[\w-]{30,}|\bhf_[A-Za-z0-9]{20,}"
        r"|(?i:(?:(?:aws[_-]?)?secret[_-]?access[_-]?key|aws[_-]?secret(?:[_-]?key)?)[\"'\\]{0,4}\s*(?:[:=]|=>)\s*"
        r"(?:\[\s*)?[\"'\\]{0,4}[a-z0-9/+]{40})"
    ),
    "passwords": (
        r"(?P<before>\b[a-z][a-z0-9+.-]*://[^\s:/@\"'<>]*:)[^\s/@\"'<>]+(?P<after>@)"
        r"|(?P<before_value>(?i:(?:password|passwd|passphrase|pwd|secret|api[_-]?key|auth[_-]?token"
        r"|access[_-]?token|refresh[_-]?token)(?:=[\"'\\]{0,4}|[\"'\\]{0,4}\s*[:=]\s*(?:\[\s*)?[\"'\\]{1,4})))"
        r"[^\s\"'\\&,;<>(){}\[\]]{4,}"
    ),
    "tokens": r"\beyJ[\w-]+\.eyJ[\w-]+\.[\w-]*|(?i:\bbearer\s+)[\w.~+/=-]{16,}",
    "private_keys": r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
    "emails": r"\b[\w.%+-]+@[\w-]+(?:\.[\w-]+)+\b",
}
"""The built-in patterns by name. A match is replaced except its groups `before...`, `after...`."""
MARK: Final = "[redacted:{}]"
NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
ID_FIELDS: Final = frozenset({"id", "tool_call_id"})
"""Fields with a message's ids, which are never redacted."""
KIND_FIELDS: Final = frozenset({"role", "type"})
"""Fields with a message's kind, which is not redacted if it is a plain name."""
TEXT_FIELDS: Final = frozenset({"content", "text"})
"""Fields with a message's text. Every message has these names, so no rule needs to match them."""
ARGUMENT_FIELDS: Final = frozenset({"arguments", "input", "args"})
"""Fields with the arguments of a tool call. Within them, fields of any name are redacted."""
PLAIN_NAME: Final = re.compile(r"[A-Za-z_]{1,40}")
"""The names of a message's fields, and its kinds, that are never redacted."""
TOO_DEEP: Final = MARK.format("too-deep")
"""The text that replaces JSON that is nested too deeply to be searched."""


class Rule(NamedTuple):
    """A compiled pattern, the mark that replaces a match, and the replacement for RE2.

    The replacement is the mark with references to the groups whose text stays.
    """

    pattern: Any
    mark: str
    replacement: bytes


class Redaction:
    """A list of rules, which are applied in order."""

    def __init__(self, rules: Mapping[str, str]) -> None:
        """Compile patterns by name. Raise CommandError if one is invalid or RE2 is missing."""
        self._rules = [_compile(*rule) for rule in rules.items()]

    @classmethod
    def of(cls, names: Iterable[str]) -> "Redaction":
        """Return the redaction by these rules. Raise CommandError if a rule is invalid.

        Each name is a built-in rule or a file of rules.
        """
        rules: dict[str, str] = {}
        for name in names:
            rules |= {name: RULES[name]} if name in RULES else read_rules(Path(name).expanduser())
        return cls(rules)

    def redact(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a walker's fields with its messages and its exported session redacted."""
        redacted = dict(fields)
        if isinstance(messages := fields.get("messages"), list):
            redacted["messages"] = [
                self._redact_value(message, is_message=True) for message in messages
            ]
        if "data" in fields:
            redacted["data"] = self._redact_export(fields["data"])
        return redacted

    def redact_text(self, text: str) -> str:
        """Return a text with a mark in place of each match of a rule."""
        for rule in self._rules:
            text = _replace(rule, text)
        return text

    def _redact_export(self, value: Any) -> Any:
        """Return a part of an exported session, with the messages in it redacted.

        An object with a text `role` is a message. Search all other objects and lists for messages.
        """
        if isinstance(value, list):
            return [self._redact_export(item) for item in value]
        if not isinstance(value, dict):
            return value
        if isinstance(value.get("role"), str):
            return self._redact_value(value, is_message=True)
        return {key: self._redact_export(item) for key, item in value.items()}

    def _redact_field(self, value: Any, name: str) -> Any:
        """Return the value of a message's field `name`, redacted.

        Ids and kinds are returned unchanged. In a tool call's arguments, names are redacted, too.
        """
        is_kind = name in KIND_FIELDS and isinstance(value, str) and PLAIN_NAME.fullmatch(value)
        if is_kind or (name in ID_FIELDS and isinstance(value, str)):
            return value
        if name in ARGUMENT_FIELDS:
            return self._redact_arguments(value)
        # Rules may match a field's name and value together, such as `password`. That is of no use
        # for the names of texts, which every message has.
        matched_name = "" if name in TEXT_FIELDS else name
        return self._redact_value(value, matched_name, is_message=True)

    def _redact_arguments(self, value: Any) -> Any:
        """Return the arguments of a tool call redacted, as JSON if they were JSON before."""
        if not isinstance(value, str):
            return self._redact_value(value)
        redacted = self._redact_json_or_text(value)
        if redacted == value or not _is_json(value) or _is_json(redacted):
            return redacted
        # A match across several values broke the JSON: return only the rule's mark.
        marks = (rule.mark for rule in self._rules)
        return json.dumps({"redacted": next(mark for mark in marks if mark in redacted)})

    def _redact_json_or_text(self, text: str) -> str:
        """Return a text redacted. If it is JSON, redact its values first, then the whole text.

        The values are redacted without JSON's escapes, which would hide secrets from the rules.
        """
        if not self._rules or text.lstrip()[:1] not in ("{", "["):
            return self.redact_text(text)
        try:
            value = json.loads(text)
        except ValueError:
            return self.redact_text(text)
        except RecursionError:
            return json.dumps([TOO_DEEP])
        try:
            redacted_value = self._redact_value(value)
            is_changed = bool(redacted_value != value)
            has_escapes = "\\u" in text
            # Rules match characters, so write the JSON again if it has escapes.
            must_write = is_changed or has_escapes
            unescaped = _dump(redacted_value, original=text) if must_write else text
        except RecursionError:
            return json.dumps([TOO_DEEP])
        # A rule may match across values, so also apply it to the whole text.
        redacted = self.redact_text(unescaped)
        return text if redacted == unescaped and not is_changed else redacted

    def _redact_value(self, value: Any, name: str = "", *, is_message: bool = False) -> Any:
        """Return a JSON value redacted. `name` is the name of its field, empty if it has none.

        Rules may match the name and the value together. `is_message` is true for a message or a
        part of one, whose fields keep their names.
        """
        if isinstance(value, Mapping):
            return self._redact_mapping(value, is_message=is_message)
        if isinstance(value, str):
            return self._redact_with_name(name, self._redact_json_or_text(value))
        if isinstance(value, Sequence):
            return [self._redact_value(item, name, is_message=is_message) for item in value]
        # A number stays a number unless a rule matches its digits.
        if isinstance(value, int) and not isinstance(value, bool):
            digits = str(value)
            redacted = self._redact_with_name(name, self.redact_text(digits))
            return value if redacted == digits else redacted
        return value

    def _redact_mapping(self, value: Mapping[str, Any], *, is_message: bool) -> dict[str, Any]:
        """Return an object with its names and values redacted.

        If names become equal, add numbers to them, so that no value is lost. In a message, plain
        names such as `role` are not redacted. In a pair such as `{"name": N, "value": V}`, the name
        of V is also N.
        """
        redact_value = self._redact_field if is_message else self._redact_value
        texts = {name.lower(): item for name, item in value.items() if isinstance(item, str)}
        pair_name = texts.get("name") or texts.get("key") or ""
        redacted: dict[str, Any] = {}
        for name, item in value.items():
            keeps_name = is_message and PLAIN_NAME.fullmatch(name)
            redacted_name = unique_name = name if keeps_name else self.redact_text(name)
            number = 1
            while unique_name in redacted:
                number += 1
                unique_name = f"{redacted_name} {number}"
            redacted[unique_name] = redact_value(item, name=redacted_name)
            if name.lower() == "value":
                redacted[unique_name] = self._redact_value(redacted[unique_name], pair_name)
        return redacted

    def _redact_with_name(self, name: str, value: str) -> str:
        """Return a field's value, redacted by rules that match the name and value together.

        Each rule sees the field as it is written in JSON. If a match is within the value, replace
        only the match. If it also has a part of the name, return only the rule's mark.
        """
        if not name:
            return value
        before, after = f'"{name}": "', '"'
        for rule in self._rules:
            field = _replace(rule, before + value + after)
            if field.startswith(before) and field.endswith(after):
                value = field[len(before) : -len(after)]
            elif _matches_across(rule, before, value, after):
                # The match includes a part of the name, so the value cannot be separated.
                return rule.mark
            else:  # The match is in the name alone: apply the rule to the value.
                value = _replace(rule, value)
        return value


def read_rules(path: Path) -> dict[str, str]:
    """Return the patterns in a file, by name. Each line has a name, a space and a pattern.

    Lines that begin with `#` are comments. Raise CommandError if the file cannot be read or a line
    is invalid.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as failure:
        known_rules = ", ".join(RULES)
        raise CommandError(
            f"redact: {str(path)!r} is neither a rule ({known_rules}) nor a file that can be read."
        ) from failure
    rules = {}
    for number, line in enumerate(lines, 1):
        name, _, pattern = line.strip().partition(" ")
        if not name or name.startswith("#"):
            continue
        if not NAME.fullmatch(name) or not pattern.strip():
            raise CommandError(f"redact: {path}, line {number} must be a name and a pattern.")
        rules[name] = pattern.strip()
    return rules


def _replace(rule: Rule, text: str) -> str:
    """Return a text with each match of a rule replaced."""
    data = rule.pattern.sub(rule.replacement, _to_bytes(text))
    return str(data.decode("utf-8", "surrogatepass"))


def _matches_across(rule: Rule, before: str, value: str, after: str) -> bool:
    """Return whether a match of the rule crosses an edge of `value`.

    The rule is applied to `before`, `value` and `after` together.
    """
    start = len(_to_bytes(before))
    end = start + len(_to_bytes(value))
    matches = rule.pattern.finditer(_to_bytes(before + value + after))
    return any(match.start() < edge < match.end() for match in matches for edge in (start, end))


def _to_bytes(text: str) -> bytes:
    """Return a text as UTF-8 for RE2, with lone surrogates as they are."""
    return text.encode("utf-8", "surrogatepass")


def _is_json(text: str) -> bool:
    """Return whether the text is valid JSON that Python can parse."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _dump(value: Any, original: str) -> str:
    """Return a value as JSON with unescaped characters. Indent it if `original` has lines."""
    indent = 2 if "\n" in original else None
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode()
    except UnicodeEncodeError:  # A lone surrogate can only be escaped.
        return json.dumps(value, indent=indent)
    return text


def _compile(name: str, pattern: str) -> Rule:
    """Return the rule of a pattern.

    A match is replaced by the rule's mark, but the text of groups whose names begin with "before"
    or "after" stays, before or after the mark. Raise CommandError if the pattern is invalid or
    matches an empty text.
    """
    try:
        re2: Any = importlib.import_module("re2")
    except ImportError:
        raise CommandError(f"redact needs {how_to_install('redact')}.") from None
    # Compile the pattern without RE2's own log of errors.
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern.encode(), options)
    except re2.error as error:
        reason = error.args[0].decode() if error.args else ""
        raise CommandError(f"redact: the rule {name!r} is not an RE2 pattern: {reason}.") from None
    # A rule that matches an empty text would put its mark between all characters.
    if compiled.search(b"") is not None:
        raise CommandError(f"redact: the rule {name!r} matches an empty text, and so everything.")
    groups = compiled.groupindex  # The numbers of the groups by their names, which are bytes.

    def references(side: bytes) -> str:
        """Return a reference, such as `\\1`, to each group whose name begins with `side`."""
        return "".join(f"\\{groups[group]}" for group in groups if group.startswith(side))

    # The text of the groups `before...` and `after...` stays around the mark.
    mark = MARK.format(name)
    replacement = references(b"before") + mark + references(b"after")
    return Rule(compiled, mark, replacement.encode())
