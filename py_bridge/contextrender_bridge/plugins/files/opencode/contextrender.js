// ContextRender inside opencode (1.17 or later).
//
// opencode writes its own summary at a compaction. Before each model call the summary that it would send is replaced by
// ContextRender's text (mode `after-summary`: the text follows it). opencode's own record stays as it is, so that it
// continues with its own summary when the service is down or the plugin is gone.

import { RECALL, assistantMessage, compact, reason, recall, render, reportUsage, toolMessage, userMessage } from './contextrender/contextrender.js'
import { nodeHost } from './contextrender/node_host.js'
import { settings } from './contextrender/settings.js'

const host = nodeHost(settings)

export const ContextRender = async ({ client }) => {
  const texts = new Map()
  host.start()

  /**
   * Return ContextRender's text for the compaction with this summary; undefined if the compaction is left to opencode. The text
   * lacks the messages that are `sent` in this call anyway. It is made once per summary, so that no later call waits again and
   * the prompt stays the same.
   */
  async function textFor(session, summary, sent) {
    const { id } = summary.info
    if (!texts.has(id)) {
      try {
        const { text, line } = await makeText(session, summary, sent)
        texts.set(id, text)
        await say(line, 'info')
      } catch (error) {
        texts.set(id, undefined)
        await say(`ContextRender left this compaction to opencode. ${reason(error)}`, 'warning')
      }
    }
    return texts.get(id)
  }

  async function makeText(session, summary, sent) {
    const { data } = await client.session.messages({ path: { id: session } })
    const end = data.findIndex(({ info }) => info.id === summary.info.id)
    // opencode sends the newest messages from before the summary as they are.
    const sentIds = new Set(sent.map(({ info }) => info.id))
    // Compare with `true`: a user’s message has a summary, too, which lists changed files.
    const isCompaction = ({ info, parts }) => info.summary === true || parts.some(part => part.type === 'compaction')
    const isReplaced = message => !isCompaction(message) && !sentIds.has(message.info.id)
    const { messages } = toChat(data.slice(0, end).filter(isReplaced))
    const onlyResults = settings.after_summary
    return compact(host, { session, messages, model: summary.info.modelID, onlyResults })
  }

  async function say(message, variant) {
    await client.tui.showToast({ body: { message, variant } }).catch(() => undefined)
    await log(message)
  }

  const log = message => client.app.log({ body: { service: 'contextrender', level: 'info', message } }).catch(() => undefined)

  async function transform(messages) {
    const session = messages[0]?.info.sessionID
    if (!session) return
    const summary = messages.find(({ info }) => info.summary === true)
    const part = summary?.parts.find(part => part.type === 'text' && part.text)
    if (part) {
      const text = await textFor(session, summary, messages)
      if (text) part.text = settings.after_summary ? `${part.text}\n\n${text}` : text
    }
    if (settings.mode !== 'render') return
    const { messages: chat, places } = toChat(messages)
    const last = messages.at(-1).info
    const call = { session, messages: chat, model: last.modelID ?? last.model?.modelID }
    const { messages: rendered, notice } = await render(host, call)
    if (notice) await say(notice, 'warning')
    rendered?.forEach(({ role, content }, number) => {
      if (role === 'tool' && content !== chat[number].content) places[number].state.output = String(content)
    })
  }

  return {
    'experimental.chat.messages.transform': async (_, { messages }) => {
      try {
        await transform(messages)
      } catch (error) {
        await log(`ContextRender changed nothing in this model call. ${reason(error)}`)
      }
    },
    event: async ({ event }) => {
      const info = event.type === 'message.updated' ? event.properties.info : {}
      if (info.role !== 'assistant' || info.summary === true || !info.time?.completed) return
      const { input, output, reasoning, cache } = info.tokens
      const counts = { input_tokens: input, output_tokens: output + reasoning }
      const cached = { cache_read_input_tokens: cache.read, cache_creation_input_tokens: cache.write }
      await reportUsage(host, info.sessionID, info.modelID, { ...counts, ...cached })
    },
    tool: {
      contextrender_recall: {
        description: RECALL.description,
        args: RECALL.parameters.properties,
        execute: (wanted, { sessionID }) => recall(host, sessionID, wanted ?? {}).catch(reason),
      },
    },
  }
}

/** Return the chat messages of opencode's messages, and the part that each result comes from. */
function toChat(rows) {
  const messages = []
  const places = []
  const add = (message, place) => {
    messages.push(message)
    places.push(place)
  }
  for (const { info, parts } of rows) {
    const text = parts.filter(part => part.type === 'text' && !part.ignored).map(part => part.text).join('\n')
    if (info.role === 'user') {
      if (text) add(userMessage(text))
      continue
    }
    const tools = parts.filter(part => part.type === 'tool')
    const calls = tools.map(({ callID, tool, state }) => ({ id: callID, name: tool, input: state.input }))
    if (text || calls.length) add(assistantMessage(text, calls))
    for (const part of tools) {
      const { status, output, error } = part.state
      if (status === 'completed') add(toolMessage(part.callID, output), part)
      else if (status === 'error') add(toolMessage(part.callID, error ?? ''))
    }
  }
  return { messages, places }
}
