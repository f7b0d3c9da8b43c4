"""Tests of the plugins' library, in a host whose clock and service the test controls."""

import subprocess
from pathlib import Path

import pytest
from contextrender_bridge.plugins.options import shipped_file

from adapters.plugins.agents.pi import node_program

HOST = """
import assert from 'node:assert/strict'
import { compact, render } from './contextrender.js'

let time = 0, requests = 0, answer
const host = {
  settings: { agent: 'test', tokens: 4000, data: '' },
  read: async () => JSON.stringify({ url: '', token: '' }),
  fetch: () => { requests += 1; return answer },
  sleep: () => new Promise(done => setTimeout(done, 9)),
  now: async () => time,
  start: () => undefined,
}
const never = new Promise(() => undefined)
const reply = body => ({ status: 200, text: JSON.stringify(body) })
const call = { session: 's', messages: [{ role: 'user', content: 'Go.' }] }
const counts = { results: 1, complete: 1, excerpts: 0 }
"""
PAUSE = """
answer = never
assert.match((await render(host, call)).notice, /did not answer within 5 s/)
time = 59_999
answer = reply({ messages: call.messages })
assert.deepEqual(await render(host, call), { status: '' })
assert.equal(requests, 1)
time = 60_000
assert.equal((await render(host, call)).messages.length, 1)
assert.equal(requests, 2)
"""
ONE_LINE = """
answer = { status: 503, text: '{}' }
assert.match((await render(host, call)).notice, /status 503/)
assert.equal((await render(host, call)).notice, undefined)
assert.equal(requests, 2)
answer = reply({ messages: call.messages })
await render(host, call)
answer = reply([])
assert.match((await render(host, call)).notice, /other messages/)
"""
SIZES = """
const kept = async (tokens, text, window) => {
  answer = reply({ ...counts, tokens, text })
  return compact(host, { ...call, window }).then(({ text }) => text.length, error => error.message)
}
assert.equal(await kept(4000, 'x'.repeat(32_000)), 32_000)
assert.match(await kept(4001, 'x'), /too large/)
assert.match(await kept(9, 'x'.repeat(32_001)), /too large/)
assert.match(await kept(3001, 'x', 6000), /too large/)
assert.equal(await kept(3000, 'x', 6000), 1)
"""


@pytest.mark.parametrize("steps", [PAUSE, ONE_LINE, SIZES], ids=["pause", "one line", "sizes"])
def test_library_validates_and_limits_its_input(tmp_path: Path, steps: str) -> None:
    (tmp_path / "contextrender.js").write_text(shipped_file("contextrender.js"))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "test.js").write_text(HOST + steps)
    process = subprocess.run(
        [node_program(), tmp_path / "test.js"], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
