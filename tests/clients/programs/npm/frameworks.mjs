// @openai/agents, @mastra/core, genkit, llamaindex and @huggingface/inference.

import { InferenceClient } from "@huggingface/inference";
import { Agent as MastraAgent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, run as runAgent, setTracingDisabled, tool } from "@openai/agents";
import { openAICompatible } from "@genkit-ai/compat-oai";
import { genkit, z as genkitZod } from "genkit";
import OpenAI from "openai";
import { z } from "zod";
import { add, added, hello, key, list, parameters, run, texts, url, v1 } from "./calling.mjs";

const client = new OpenAI({ baseURL: v1, apiKey: key, maxRetries: 0 });
const schema = z.object({ a: z.number().int() });
setTracingDisabled(true);

const agent = (Model, more = {}) => new Agent({ name: "a", model: new Model(client, "llama"), ...more });
const adding = tool({ name: "add", description: "Adds.", parameters: schema, execute: async (given) => add(given) });
const turn = async (Model) => {
  const answer = (await runAgent(agent(Model, { tools: [adding] }), "hello")).finalOutput;
  return [...added, answer];
};

const mastra = (more = {}) =>
  new MastraAgent({ id: "a", name: "a", instructions: "Be brief.", model: { id: "local/llama", url: v1, apiKey: key }, ...more });

const kit = genkit({ plugins: [openAICompatible({ name: "local", apiKey: key, baseURL: v1 })] });

const hub = new InferenceClient(key, { endpointUrl: v1 });

await run({
  agents_chat: async () => (await runAgent(agent(OpenAIChatCompletionsModel), "hello")).finalOutput,
  agents_stream: async () =>
    list((await runAgent(agent(OpenAIChatCompletionsModel), "hello", { stream: true })).toTextStream(), (piece) => piece),
  agents_tool: () => turn(OpenAIChatCompletionsModel),
  agents_schema: async () => (await runAgent(agent(OpenAIChatCompletionsModel, { outputType: schema }), "hello")).finalOutput,
  agents_responses: async () => (await runAgent(agent(OpenAIResponsesModel), "hello")).finalOutput,
  agents_responses_tool: () => turn(OpenAIResponsesModel),
  mastra_chat: async () => (await mastra().generate("hello")).text,
  mastra_stream: async () => list((await mastra().stream("hello")).textStream, (piece) => piece),
  mastra_tool: async () => {
    const add_tool = createTool({ id: "add", description: "Adds.", inputSchema: schema, execute: async (given) => add(given.context ?? given) });
    const answer = await mastra({ tools: { add: add_tool } }).generate("hello");
    return [...added, answer.text];
  },
  genkit_chat: async () => (await kit.generate({ model: "local/llama", prompt: "hello" })).text,
  genkit_stream: async () => list(kit.generateStream({ model: "local/llama", prompt: "hello" }).stream, (chunk) => chunk.text),
  genkit_tool: async () => {
    const inputSchema = genkitZod.object({ a: genkitZod.number().int() });
    const kitTool = kit.defineTool({ name: "add", description: "Adds.", inputSchema }, async (given) => add(given));
    const answer = await kit.generate({ model: "local/llama", prompt: "hello", tools: [kitTool] });
    return [...added, answer.text];
  },
  huggingface_chat: async () => (await hub.chatCompletion({ model: "llama", messages: hello })).choices[0].message.content,
  huggingface_stream: async () =>
    list(hub.chatCompletionStream({ model: "llama", messages: hello }), (chunk) => chunk.choices[0]?.delta.content),
  huggingface_tool: async () => {
    const tools = [{ type: "function", function: { name: "add", description: "Adds.", parameters } }];
    const { message } = (await hub.chatCompletion({ model: "llama", messages: hello, tools })).choices[0];
    const [call] = message.tool_calls;
    const result = { role: "tool", tool_call_id: call.id, content: add(JSON.parse(call.function.arguments)) };
    const answer = await hub.chatCompletion({ model: "llama", messages: [...hello, message, result], tools });
    return [...added, answer.choices[0].message.content];
  },
});
