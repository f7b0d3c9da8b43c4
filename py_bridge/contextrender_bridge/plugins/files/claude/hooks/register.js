// ContextRender inside Claude Code (2.1.310 or later; mode `render` needs 2.1.329).

import { RECALL, assistantMessage, compact, reason, recall, render, reportUsage, toolMessage, userMessage } from './contextrender.js'
import { settings } from './settings.js'

const COMPACTION = 'Your task is to create a detailed summary'

export function register(on) {
  on('session.start', async ($, event, next) => {
    start($)
    await $.tool
      .register({ name: RECALL.name, description: RECALL.description, inputSchema: RECALL.parameters })
      .catch(error => $.ui.log(`ContextRender has no recall tool: ${error}`, { to: 'debug' }))
    return next(event)
  })

  on('tool.call', { tool: 'mcp__contextrender__recall' }, async ($, event) => {
    const { query, results } = event
    const text = await recall(hostOf($), await sessionOf($, event.agentId), { query, results }).catch(reason)
    return { result: text }
  })

  on('session.compact', async ($, event, next) => {
    if (event.trigger === 'precompute') return next(event)
    let ownCompaction // Claude Code's own, which the text follows in mode `after-summary`
    try {
      if (settings.after_summary) ownCompaction = await next(event)
      if (ownCompaction?.skip) return ownCompaction
      const summary = ownCompaction?.messages.map(message => message.text).join('\n\n')
      const request = { session: await sessionOf($, event.agentId), messages: toChat(event.messages), summary }
      const { context } = await $.session.usage().catch(() => ({}))
      const { text, line } = await compact(hostOf($), { ...request, window: context?.window })
      $.ui.log(line)
      return { messages: [{ role: 'user', text, toolUses: [] }] }
    } catch (error) {
      $.ui.log(`ContextRender left this compaction to Claude Code. ${reason(error)}`)
      return ownCompaction ?? next(event)
    }
  })

  on('turn.step', async function* ($, event, next) {
    const step = yield* next(event)
    if (step?.usage) await reportUsage(hostOf($), await sessionOf($, event.agentId), step.usage.model ?? event.model, step.usage)
    return step
  })

  if (settings.mode === 'render') {
    on('http.fetch', async ($, event, next) => {
      if (next.origin.plugin !== 'engine') return next(event)
      const body = modelCall(event)
      if (!body) return next(event)
      try {
        const session = await sessionOf($, event.init.headers?.['x-claude-code-agent-id'])
        const call = { session, messages: body.messages, model: body.model, format: 'messages' }
        const { messages, status, notice } = await render(hostOf($), call)
        $.ui.status(status || undefined)
        if (notice) $.ui.log(notice)
        if (!messages) return next(event)
        return next({ ...event, init: { ...event.init, body: JSON.stringify({ ...body, messages }) } })
      } catch (error) {
        $.ui.status(undefined)
        $.ui.log(`ContextRender sent this call unchanged. ${reason(error)}`, { to: 'debug' })
        return next(event)
      }
    })
  }
}

/** Return the chat messages of Claude Code's rows. */
function toChat(rows) {
  return rows.flatMap(row => {
    if (row.role === 'assistant') {
      const calls = row.toolUses.map(use => ({ id: use.tool_use_id, name: use.tool, input: use.input }))
      return [assistantMessage(row.text, calls)]
    }
    const results = (row.toolResults ?? []).map(result => toolMessage(result.tool_use_id, result.text))
    return row.text ? [...results, userMessage(row.text)] : results
  })
}

/** Return the body of a request if it is a model call of the agent's own, with tools. */
function modelCall({ url, init }) {
  if (init?.method !== 'POST' || !/\/v1\/messages(\?|$)/.test(url) || typeof init.body !== 'string') return undefined
  if (init.body.includes(COMPACTION)) return undefined
  try {
    const body = JSON.parse(init.body)
    return Array.isArray(body.messages) && body.tools?.length ? body : undefined
  } catch {
    return undefined
  }
}

async function sessionOf($, agent) {
  const session = await $.session.id()
  return agent ? `${session}-${agent}` : session
}

function hostOf($) {
  return {
    settings,
    read: path => $.fs.read(path),
    fetch: (url, init) => $.http.fetch(url, init),
    sleep: ms => $.clock.sleep(ms),
    now: () => $.clock.now(),
    start: () => start($),
  }
}

/** Start the service if none runs; it lives as long as Claude Code does, and some minutes more. */
function start($) {
  $.process.run(settings.start, { timeoutMs: 180_000 }).catch(() => undefined)
}
