"""Token counts equal tiktoken's, are additive, need no network and accept any text."""

import os
import subprocess
import sys
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge.engine.text import tokens
from contextrender_bridge.engine.text.tokens import TokenCounter, counter_for, well_formed
from hypothesis import given
from hypothesis import strategies as st

from bench.shipped import litellm_folder, tiktoken_encoding
from tests.support.growth import grows_in_proportion

COUNTER = counter_for(None)
PROSE = st.text(alphabet=st.sampled_from("abZ19 \n\t.,'_-/é中😀{}\""), max_size=400)


@cache
def oracle(encoding: str) -> Any:
    return tiktoken_encoding(litellm_folder(), encoding)


@given(st.text())
def test_count_equals_tiktoken(text: str) -> None:
    assert COUNTER.text(text) == len(oracle("o200k_base").encode_ordinary(text))


@given(st.lists(st.text(min_size=1), min_size=1))
def test_token_counts_of_parts_sum_to_the_text(parts: list[str]) -> None:
    ends = list(accumulate(map(len, parts)))
    counts = COUNTER.spread("".join(parts), ends)
    assert sum(counts) == COUNTER.text("".join(parts))
    assert len(counts) == len(parts)
    assert min(counts) >= 0


def test_count_of_long_text_equals_tiktoken() -> None:
    encoding = "cl100k_base"
    text = 'Line {"key_1": 3.5, "path": "/a/b.py"}, it\'s one.\n    indented words\n' * 5_000
    assert len(text) > 3 * tokens.PIECE_CHARS
    expected = len(oracle(encoding).encode_ordinary(text))
    assert TokenCounter(encoding).text(text) == expected


@pytest.mark.parametrize("run", [" ", "a", "=", "\ud800"])
def test_counting_time_is_linear(run: str) -> None:
    assert grows_in_proportion(lambda size: COUNTER.text(run * size + "x"), 50_000)


def test_special_tokens_and_lone_surrogates_are_text() -> None:
    assert COUNTER.text("<|endoftext|>") > 1
    assert COUNTER.text("a\ud800b") == COUNTER.text("a\ufffdb")
    assert well_formed("\ud83d\ude00\ud800") == "😀\ufffd"


@given(PROSE, st.integers(-1, 80))
def test_cut_keeps_a_prefix_within_the_limit(text: str, limit: int) -> None:
    prefix = COUNTER.cut(text, limit)
    assert text.startswith(prefix)
    assert COUNTER.text(prefix) <= max(limit, 0)
    assert prefix == text or COUNTER.text(text) > limit


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        (None, "o200k_base"),
        ("openai/gpt-4", "cl100k_base"),
        ("text-embedding-3-small", "cl100k_base"),
        ("claude-sonnet-4-6", "o200k_base"),
    ],
)
def test_model_has_its_encoding_or_the_default(model: str | None, encoding: str) -> None:
    assert counter_for(model).encoding == encoding
    assert counter_for(model) is counter_for(model)


def test_counting_needs_no_network_or_litellm() -> None:
    script = (
        "import socket, sys\n"
        "def refuse(*_): raise OSError('network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from contextrender_bridge.engine.text.tokens import counter_for\n"
        "assert counter_for('gpt-4').text('hello world') == 2\n"
        "assert counter_for(None).text('hello world') == 2\n"
        "assert 'litellm' not in sys.modules\n"
    )
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"}
    }
    root = Path(__file__).resolve().parents[3]
    subprocess.run([sys.executable, "-c", script], cwd=root, env=environment, check=True)
