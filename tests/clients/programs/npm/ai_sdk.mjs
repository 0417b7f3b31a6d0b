// ai with the providers openai, openai-compatible, anthropic and cohere: texts, streams, tools, objects and vectors.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createCohere } from "@ai-sdk/cohere";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Output, embedMany, generateText, rerank, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { add, added, documents, key, list, query, run, texts, url, v1 } from "./calling.mjs";

const openai = createOpenAI({ baseURL: v1, apiKey: key });
const compatible = createOpenAICompatible({ name: "a", baseURL: v1, apiKey: key });
const anthropic = createAnthropic({ baseURL: v1, apiKey: key });
const cohere = createCohere({ baseURL: `${url}/v2`, apiKey: key });
const more = { prompt: "hello", maxRetries: 0 };
const inputSchema = z.object({ a: z.number().int() });

const text = async (model) => (await generateText({ model, ...more })).text;
const pieces = (model) => list(streamText({ model, ...more }).textStream, (piece) => piece);
const turn = async (model, choices = {}) => {
  const tools = { add: tool({ description: "Adds.", inputSchema, execute: async (given) => add(given) }) };
  const answer = await generateText({ model, tools, stopWhen: stepCountIs(3), ...more, ...choices });
  return [...added, answer.text];
};
const object = async (model) =>
  (await generateText({ model, output: Output.object({ schema: inputSchema }), ...more })).output;
const vectors = async (model) => (await embedMany({ model, values: texts, maxRetries: 0 })).embeddings;

await run({
  openai_responses: () => text(openai("llama")),
  openai_responses_stream: () => pieces(openai("llama")),
  openai_responses_tool: () => turn(openai("llama")),
  openai_stateless_tool: () => turn(openai("llama"), { providerOptions: { openai: { store: false } } }),
  openai_responses_schema: () => object(openai("llama")),
  openai_chat: () => text(openai.chat("llama")),
  openai_tool: () => turn(openai.chat("llama")),
  openai_vectors: () => vectors(openai.embedding("nomic")),
  compatible_chat: () => text(compatible("llama")),
  compatible_stream: () => pieces(compatible("llama")),
  compatible_tool: () => turn(compatible("llama")),
  compatible_vectors: () => vectors(compatible.textEmbeddingModel("nomic")),
  anthropic_chat: () => text(anthropic("llama")),
  anthropic_stream: () => pieces(anthropic("llama")),
  anthropic_tool: () => turn(anthropic("llama")),
  anthropic_schema: () => object(anthropic("llama")),
  cohere_chat: () => text(cohere("llama")),
  cohere_stream: () => pieces(cohere("llama")),
  cohere_tool: () => turn(cohere("llama")),
  cohere_vectors: () => vectors(cohere.embedding("nomic")),
  cohere_best: async () => (await rerank({ model: cohere.reranking("bge"), query, documents })).ranking[0].originalIndex,
});
