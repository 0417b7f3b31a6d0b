// @anthropic-ai/sdk: messages, a stream, a loop with a tool, and the count of tokens.

import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { add, added, hello, key, list, parameters, run, url } from "./calling.mjs";

const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
const more = { model: "llama", max_tokens: 500, messages: hello };

await run({
  chat: async () => (await client.messages.create(more)).content[0].text,
  stream: async () => list(client.messages.stream(more), (event) => event.delta?.text),
  tool: async () => {
    const tool = betaTool({ name: "add", description: "Adds.", inputSchema: parameters, run: add });
    const final = await client.beta.messages.toolRunner({ ...more, tools: [tool] });
    return [...added, final.content[0].text];
  },
  count: async () => (await client.messages.countTokens({ model: "llama", messages: hello })).input_tokens,
});
