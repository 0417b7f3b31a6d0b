// openai: chats, Responses, tools, a schema, completions and vectors.

import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { add, added, hello, key, list, parameters, run, texts, v1 } from "./calling.mjs";

const client = new OpenAI({ baseURL: v1, apiKey: key, maxRetries: 0 });
const tool = { type: "function", function: { name: "add", parameters, function: add, parse: JSON.parse } };
const flat = { type: "function", name: "add", parameters, strict: true };

await run({
  chat: async () => (await client.chat.completions.create({ model: "llama", messages: hello })).choices[0].message.content,
  stream: async () =>
    list(client.chat.completions.stream({ model: "llama", messages: hello }), (event) => event.choices[0]?.delta.content),
  tool: async () => {
    const answer = await client.chat.completions.runTools({ model: "llama", messages: hello, tools: [tool] }).finalContent();
    return [...added, answer];
  },
  schema: async () => {
    const response_format = zodResponseFormat(z.object({ a: z.number().int() }), "answer");
    const answer = await client.chat.completions.parse({ model: "llama", messages: hello, response_format });
    return answer.choices[0].message.parsed;
  },
  responses: async () => (await client.responses.create({ model: "llama", input: "hello" })).output_text,
  responses_stream: async () =>
    list(client.responses.stream({ model: "llama", input: "hello" }), (event) =>
      event.type === "response.output_text.delta" ? event.delta : ""),
  responses_tool: async () => {
    const first = await client.responses.create({ model: "llama", input: hello, tools: [flat], store: false });
    const call = first.output.at(-1);
    const result = { type: "function_call_output", call_id: call.call_id, output: add(JSON.parse(call.arguments)) };
    const input = [...hello, ...first.output, result];
    return [...added, (await client.responses.create({ model: "llama", input, tools: [flat], store: false })).output_text];
  },
  completion: async () => (await client.completions.create({ model: "llama", prompt: "the cat" })).choices[0].text,
  vectors: async () => (await client.embeddings.create({ model: "nomic", input: texts })).data.map((item) => item.embedding),
});
