// The library that the plugins of all agents share. It has no dependency and uses no global of Node or of a browser.
//
// A host passes `host`: { settings, read(path), fetch(url, init), sleep(ms), now(), start() }. `fetch` resolves to
// { status, text }. `compact` and `recall` return a checked value or throw `Failure`, whose message is a sentence for the
// user. `render` throws nothing. Without an answer the agent continues as if there were no plugin.

const TIME_LIMIT_MS = 5000
const PAUSE_MS = 60_000
const REPORT_LIMIT_MS = 1000
const MIN_TOKENS = 2000
const CHARACTERS_PER_TOKEN = 8 // at most, over a whole text

class Failure extends Error {}

class TooSlow extends Failure {}

/** Return the sentence for the user about a failure. */
export const reason = error => (error instanceof Failure ? error.message : `It failed: ${error}`)

/**
 * Return the text that replaces a history, and a line for the user with the numbers of results and tokens in it. `window` is
 * the model's window in tokens. `summary` is the agent's own summary, if the text follows it. With `onlyResults`, the text has
 * only results.
 */
export async function compact(host, { session, messages, model, window, summary, onlyResults }) {
  const started = await host.now()
  const request = { session, messages, tokens: host.settings.tokens, client: host.settings.agent }
  if (model) request.model = model
  if (window) request.window = window
  if (summary) request.summary = summary
  if (onlyResults) request.only_results = true
  const reply = await post(host, '/v1/compact', request)
  reports.set(session, afterCompaction(reply))
  const { text, results, complete, excerpts } = reply
  if (typeof text !== 'string' || !text.trim()) throw new Failure('The service sent no text.')
  if (![results, complete, excerpts, reply.tokens].every(Number.isInteger)) throw new Failure('The service sent no counts.')
  // A text above the limit would fill the window, and the agent would compact again and again.
  const limit = Math.max(MIN_TOKENS, Math.min(request.tokens, window ? window / 2 : request.tokens))
  if (Math.max(reply.tokens, text.length / CHARACTERS_PER_TOKEN) > limit) throw new Failure('The service sent a text that is too large.')
  const milliseconds = Math.round((await host.now()) - started)
  const partly = excerpts ? ` and parts of ${excerpts}` : ''
  const call = summary || onlyResults ? 'after the agent’s summary' : 'no model call'
  const counts = `${complete} of ${grouped(results)} results${partly} in ${grouped(reply.tokens)} tokens`
  return { text, line: `ContextRender kept ${counts}, ${milliseconds} ms, ${call}.` }
}

/** How the usage of each session's newest recorded call is reported: a path, and a function that returns the fields. */
const reports = new Map()

/**
 * Report the provider's usage of the session's newest call, unless the service did not record that call. `usage` has the
 * names of Anthropic's API. A failure is ignored, and the agent waits at most a second, because it does not need the report.
 */
export async function reportUsage(host, session, model, usage) {
  const report = reports.get(session)
  if (!report || !Number.isInteger(usage?.input_tokens)) return
  reports.delete(session)
  const sent = post(host, report.path, report.fields(model ?? '', usage)).catch(() => undefined)
  await Promise.race([sent, host.sleep(REPORT_LIMIT_MS)])
}

/** Return how to report the usage of the call after a compaction, whose `reply` says where the service recorded it. */
const afterCompaction = ({ session, branch, offset }) => ({
  path: '/walker/record_usage',
  fields(model, usage) {
    const hour = usage.cache_creation?.ephemeral_1h_input_tokens ?? 0
    const counts = {
      uncached: usage.input_tokens,
      cache_read: usage.cache_read_input_tokens ?? 0,
      cache_write: Math.max((usage.cache_creation_input_tokens ?? 0) - hour, 0),
      cache_write_1h: hour,
      output: usage.output_tokens ?? 0,
    }
    return { session, branch, usage: { messages: offset, model, ...counts } }
  },
})

/** State of mode `render`: until when no call asks the service, and whether the last call failed. */
const rendering = { pauseEnd: 0, isFailing: false }

/**
 * Return the messages of a model call with omitted results replaced, in the same format and number, and a `status` line.
 * If the service does not answer, return no messages. Of several failures in a row, only the first has a `notice`, which tells
 * the user the reason. If an answer takes too long, the next calls do not ask the service for `PAUSE_MS`.
 */
export async function render(host, call) {
  if ((await host.now()) < rendering.pauseEnd) return { status: '' }
  try {
    const rendered = await renderCall(host, call)
    rendering.isFailing = false
    return rendered
  } catch (error) {
    if (error instanceof TooSlow) rendering.pauseEnd = (await host.now()) + PAUSE_MS
    const notice = rendering.isFailing ? undefined : `ContextRender leaves model calls unchanged. ${reason(error)}`
    rendering.isFailing = true
    return { status: '', notice }
  }
}

async function renderCall(host, { session, messages, model, format }) {
  const request = { messages, client: host.settings.agent }
  if (model) request.model = model
  if (format) request.format = format
  const reply = await post(host, '/v1/compress', request, { 'x-contextrender-session': session })
  if (!Array.isArray(reply.messages) || reply.messages.length !== messages.length) {
    throw new Failure('The service sent other messages than it was asked for.')
  }
  if (reply.fail_open) throw new Failure(`The service could not render this call (${reply.fail_open}).`)
  reports.set(session, { path: '/v1/compress', fields: (model, usage) => ({ session: reply.session, model, usage }) })
  const { tokens_before: before, tokens_after: after } = reply
  const saves = Number.isInteger(before) && Number.isInteger(after) && after < before
  return { messages: reply.messages, status: saves ? `ContextRender: ${grouped(after)} of ${grouped(before)} tokens` : '' }
}

/** Return the complete results that a query or their numbers name, as one text. */
export async function recall(host, session, { query, results }) {
  const hasNumbers = Array.isArray(results) && results.length > 0
  const request = hasNumbers ? { session, results } : { session, query: String(query ?? '') }
  const reply = await post(host, '/walker/recall', request)
  const recalled = reply.reports?.[0]?.results
  if (!Array.isArray(recalled)) throw new Failure('The service sent no results.')
  if (!recalled.length) return 'No result matches.'
  return recalled.map(result => {
    const content = result.message?.content
    const text = typeof content === 'string' ? content : JSON.stringify(content)
    return `[result ${result.position} of ${result.name} ${result.arguments}]\n${text}`
  }).join('\n\n')
}

export const RECALL = {
  name: 'recall',
  description:
    'Return complete tool results from earlier in this session that are no longer in the conversation. Give `results` ' +
    '(their numbers, as in "recall result 12") or a `query` (words that the result contains).',
  parameters: {
    type: 'object',
    properties: {
      query: { type: 'string', description: 'words that the result contains' },
      results: { type: 'array', items: { type: 'integer' }, description: 'numbers of results' },
    },
  },
}

/** Return a chat message of the user. */
export const userMessage = text => ({ role: 'user', content: text })

/** Return a chat message of the assistant; `calls` are { id, name, input }. */
export function assistantMessage(text, calls) {
  const message = { role: 'assistant', content: text || null }
  if (calls.length) {
    message.tool_calls = calls.map(({ id, name, input }) => ({
      id, type: 'function', function: { name, arguments: JSON.stringify(input ?? {}) },
    }))
  }
  return message
}

/** Return a chat message with a tool's result. */
export const toolMessage = (id, text) => ({ role: 'tool', tool_call_id: id, content: text })

/** Return the reply to a request, or throw `Failure` if it does not come within the time limit. */
async function post(host, path, body, headers = {}) {
  const { url, token } = await credentials(host)
  const init = {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}`, 'x-contextrender-token': token, ...headers },
    body: JSON.stringify(body),
  }
  const late = host.sleep(TIME_LIMIT_MS).then(() => { throw new TooSlow('The service did not answer within 5 s.') })
  late.catch(() => undefined)
  let reply
  try {
    reply = await Promise.race([host.fetch(url + path, init), late])
  } catch (error) {
    if (error instanceof Failure) throw error
    host.start()
    throw new Failure('The service is not running; it is started for the next time.')
  }
  let parsed
  try {
    parsed = JSON.parse(reply.text)
  } catch {
    throw new Failure(`The service sent no JSON (status ${reply.status}).`)
  }
  if (reply.status !== 200) {
    throw new Failure(`The service refused the request (status ${reply.status}, ${parsed?.error?.code ?? 'no code'}).`)
  }
  if (parsed === null || typeof parsed !== 'object') throw new Failure('The service sent no object.')
  return parsed
}

async function credentials(host) {
  try {
    const { url, token } = JSON.parse(await host.read(`${host.settings.data}/credentials.json`))
    if (typeof url === 'string' && typeof token === 'string') return { url: url.replace(/\/$/, ''), token }
  } catch {
    // The file is missing or is not JSON.
  }
  host.start()
  throw new Failure('The service has not been started yet; it is started for the next time.')
}

const grouped = count => String(count).replace(/\B(?=(\d{3})+$)/g, ',')
