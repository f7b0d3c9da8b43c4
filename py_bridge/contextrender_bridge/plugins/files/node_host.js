// The host of the plugins that run in Node or Bun.

import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'

export function nodeHost(settings) {
  return {
    settings,
    read: path => readFile(path, 'utf8'),
    async fetch(url, init) {
      const reply = await fetch(url, init)
      return { status: reply.status, text: await reply.text() }
    },
    sleep: ms => new Promise(done => setTimeout(done, ms).unref?.()),
    now: () => Date.now(),
    start() {
      try {
        const [program, ...words] = settings.start
        const child = spawn(program, [...words, String(process.pid)], { stdio: 'ignore', detached: true })
        child.on('error', () => undefined)
        child.unref()
      } catch {
        // The agent continues without the service.
      }
    },
  }
}
