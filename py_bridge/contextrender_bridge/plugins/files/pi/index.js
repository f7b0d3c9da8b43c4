// ContextRender inside pi (0.73.1 or later).

import { RECALL, assistantMessage, compact, reason, recall, render, reportUsage, toolMessage, userMessage } from './contextrender.js'
import { nodeHost } from './node_host.js'
import { settings } from './settings.js'

const host = nodeHost(settings)

export default function (pi) {
  pi.on('session_start', () => host.start())

  pi.registerTool({
    ...RECALL,
    label: 'Recall',
    async execute(_id, wanted, _signal, _update, context) {
      const text = await recall(host, sessionOf(context), wanted ?? {}).catch(reason)
      return { content: [{ type: 'text', text }], details: {} }
    },
  })

  pi.on('session_before_compact', async (event, context) => {
    const { messagesToSummarize, turnPrefixMessages, previousSummary, firstKeptEntryId, tokensBefore } = event.preparation
    try {
      const earlier = previousSummary ? [userMessage(previousSummary)] : []
      const messages = [...earlier, ...toChat([...messagesToSummarize, ...(turnPrefixMessages ?? [])]).map(({ message }) => message)]
      const { text, line } = await compact(host, { session: sessionOf(context), messages, ...modelOf(context) })
      show(context, line)
      return { compaction: { summary: text, firstKeptEntryId, tokensBefore, details: { contextrender: line } } }
    } catch (error) {
      show(context, `ContextRender left this compaction to pi. ${reason(error)}`)
      return undefined
    }
  })

  pi.on('message_end', async ({ message }, context) => {
    const { role, model, usage } = message
    if (role !== 'assistant' || !usage) return
    const hour = usage.cacheWrite1h ? { cache_creation: { ephemeral_1h_input_tokens: usage.cacheWrite1h } } : {}
    const counts = { input_tokens: usage.input, output_tokens: usage.output }
    const cached = { cache_read_input_tokens: usage.cacheRead, cache_creation_input_tokens: usage.cacheWrite, ...hour }
    await reportUsage(host, sessionOf(context), model, { ...counts, ...cached })
  })

  if (settings.mode === 'render') {
    pi.on('context', async (event, context) => {
      try {
        const rows = toChat(event.messages)
        const request = { session: sessionOf(context), messages: rows.map(({ message }) => message), ...modelOf(context) }
        const { messages, status, notice } = await render(host, request)
        if (context.hasUI) context.ui.setStatus('contextrender', status || undefined)
        if (notice) show(context, notice)
        if (!messages) return undefined
        const rendered = [...event.messages]
        rows.forEach(({ place, message }, number) => {
          const { content } = messages[number]
          if (message.role === 'tool' && content !== message.content) {
            rendered[place] = { ...event.messages[place], content: [{ type: 'text', text: String(content) }] }
          }
        })
        return { messages: rendered }
      } catch {
        if (context.hasUI) context.ui.setStatus('contextrender', undefined)
        return undefined
      }
    })
  }
}

/** Return the chat messages of pi's messages, each with its place among them. */
function toChat(messages) {
  return messages.flatMap((row, place) => {
    const text = textOf(row.content)
    if (row.role === 'user') return [{ place, message: userMessage(text) }]
    if (row.role === 'assistant') {
      const calls = row.content.filter(part => part.type === 'toolCall')
      const named = calls.map(({ id, name, arguments: input }) => ({ id, name, input }))
      return text || named.length ? [{ place, message: assistantMessage(text, named) }] : []
    }
    if (row.role === 'toolResult') return [{ place, message: toolMessage(row.toolCallId, text) }]
    if (row.role === 'bashExecution') return [{ place, message: userMessage(`$ ${row.command}\n${row.output}`) }]
    const summary = row.summary ?? text
    return summary ? [{ place, message: userMessage(summary) }] : []
  })
}

function textOf(content) {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.filter(part => part.type === 'text').map(part => part.text).join('\n')
}

const sessionOf = context => context.sessionManager.getSessionId()

const modelOf = ({ model }) => ({ model: model?.id, window: model?.contextWindow })

function show(context, line) {
  if (context.hasUI) context.ui.notify(line, 'info')
}
