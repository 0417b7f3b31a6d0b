// groq-sdk, a client of another vendor at the gateway's address.

import Groq from "groq-sdk";
import { add, added, hello, key, list, parameters, run, url } from "./calling.mjs";

const groq = new Groq({ baseURL: url, apiKey: key, maxRetries: 0 });
const tools = [{ type: "function", function: { name: "add", description: "Adds.", parameters } }];
const chat = { model: "llama", messages: hello };

await run({
  groq_chat: async () => (await groq.chat.completions.create(chat)).choices[0].message.content,
  groq_stream: async () =>
    list(await groq.chat.completions.create({ ...chat, stream: true }), (event) => event.choices[0]?.delta.content),
  groq_tool: async () => {
    const { message } = (await groq.chat.completions.create({ ...chat, tools })).choices[0];
    const [call] = message.tool_calls;
    const result = { role: "tool", tool_call_id: call.id, content: add(JSON.parse(call.function.arguments)) };
    const answer = await groq.chat.completions.create({ model: "llama", messages: [...hello, message, result], tools });
    return [...added, answer.choices[0].message.content];
  },
});
