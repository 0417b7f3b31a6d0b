// cohere-ai: both versions of chat, vectors and ranks.

import { CohereClient, CohereClientV2 } from "cohere-ai";
import { add, added, documents, hello, key, list, parameters, query, run, texts, url } from "./calling.mjs";

const client = new CohereClientV2({ token: key, environment: url, baseUrl: url });
const old = new CohereClient({ token: key, environment: url, baseUrl: url });
const tools = [{ type: "function", function: { name: "add", description: "Adds.", parameters } }];

await run({
  chat: async () => (await client.chat({ model: "llama", messages: hello })).message.content[0].text,
  stream: async () =>
    list(await client.chatStream({ model: "llama", messages: hello }), (event) => event.delta?.message?.content?.text),
  tool: async () => {
    const { message } = await client.chat({ model: "llama", messages: hello, tools });
    const [call] = message.toolCalls;
    const result = { role: "tool", toolCallId: call.id, content: add(JSON.parse(call.function.arguments)) };
    const answer = await client.chat({ model: "llama", messages: [...hello, message, result], tools });
    return [...added, answer.message.content[0].text];
  },
  v1_chat: async () => (await old.chat({ model: "llama", message: "hello" })).text,
  v1_stream: async () =>
    list(await old.chatStream({ model: "llama", message: "hello" }), (event) =>
      event.eventType === "text-generation" ? event.text : ""),
  vectors: async () => {
    const more = { inputType: "search_document", embeddingTypes: ["float"] };
    return (await client.embed({ model: "nomic", texts, ...more })).embeddings.float;
  },
  best: async () => (await client.rerank({ model: "bge", query, documents })).results[0].index,
});
