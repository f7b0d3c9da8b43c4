"""Cutting a result's text into segments, the units that excerpts are made of."""

import re
from typing import Final

SEGMENT_CHARACTERS: Final = 70
LONGEST_RECORD: Final = 160
LONGEST_WORD: Final = 280

_LINE: Final = r"(?:\n|\\n)"
_SEGMENT: Final = re.compile(
    "|".join(
        pattern.replace("MOST", str(SEGMENT_CHARACTERS)).replace("LINE", _LINE)
        for pattern in (
            r".{1,MOST}+\Z",
            r".{28,MOST}[}\])],?LINE",
            rf".{{MOST,{LONGEST_RECORD}}}?[}}\])],?LINE",
            rf".{{28,{LONGEST_RECORD}}}?[}}\])],(?=\s*[{{\[])",
            rf".{{28,{LONGEST_RECORD}}}?LINE(?=[ \t]*(?:- |LINE|#))",
            r".{14,MOST}LINE",
            r".{20,MOST}[}\])],(?=\s*[{\[\"'(])",
            r".{35,MOST}(?:,\s?(?=\\*[\"'])|[.;!?]\s|\||\t|\\t|[}\])],)",
            r".{35,MOST}(?<!:)[\s,]",
            rf".{{MOST,{LONGEST_WORD}}}?[\s\"'<>,](?![\s\"'<>,])",
            r".{1,MOST}",
        )
    ),
    re.DOTALL,
)


def segments_of(text: str) -> list[str]:
    """The text in pieces of about `SEGMENT_CHARACTERS` at most; one, if it is empty.

    A piece is as much as ends with a record or an item of a list, up to `LONGEST_RECORD`; else as
    many whole lines as there is room for; else it ends with a record within a line, a sentence or a
    field, else at white space or a comma, but not between a key and its value. A longer word stays
    whole up to `LONGEST_WORD`.
    """
    return _SEGMENT.findall(text) or [""]
