// @langchain/openai, anthropic, cohere and langgraph.

import { ChatAnthropic } from "@langchain/anthropic";
import { ChatCohere, CohereEmbeddings, CohereRerank } from "@langchain/cohere";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { CohereClient } from "cohere-ai";
import { z } from "zod";
import { add, added, documents, key, list, query, run, texts, url, v1 } from "./calling.mjs";

const configuration = { baseURL: v1 };
const schema = z.object({ a: z.number().int() });
const openai = new ChatOpenAI({ model: "llama", apiKey: key, configuration, maxRetries: 0 });
const newer = new ChatOpenAI({ model: "llama", apiKey: key, configuration, maxRetries: 0, useResponsesApi: true });
const claude = new ChatAnthropic({ model: "llama", apiKey: key, anthropicApiUrl: url, maxRetries: 0 });
const client = new CohereClient({ token: key, environment: url, baseUrl: url });
const cohere = new ChatCohere({ model: "llama", client, maxRetries: 0 });
const adding = tool(async (given) => add(given), { name: "add", description: "Adds.", schema });

const text = async (model) => (await model.invoke("hello")).text;
const pieces = async (model) => list(await model.stream("hello"), (chunk) => chunk.text);
const turn = async (model) => {
  const state = await createReactAgent({ llm: model, tools: [adding] }).invoke({ messages: [["user", "hello"]] });
  return [...added, state.messages.at(-1).text];
};

await run({
  openai_chat: () => text(openai),
  openai_stream: () => pieces(openai),
  openai_tool: () => turn(openai),
  openai_schema: () => openai.withStructuredOutput(schema).invoke("hello"),
  openai_responses: () => text(newer),
  openai_responses_tool: () => turn(newer),
  openai_vectors: () => new OpenAIEmbeddings({ model: "nomic", apiKey: key, configuration }).embedDocuments(texts),
  anthropic_chat: () => text(claude),
  anthropic_stream: () => pieces(claude),
  anthropic_tool: () => turn(claude),
  cohere_chat: () => text(cohere),
  cohere_stream: () => pieces(cohere),
  cohere_tool: () => turn(cohere),
  cohere_vectors: () => new CohereEmbeddings({ model: "nomic", client, inputType: "search_document" }).embedDocuments(texts),
  cohere_best: async () => (await new CohereRerank({ model: "bge", client, topN: 1 }).rerank(documents, query))[0].index,
});
