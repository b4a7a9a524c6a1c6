// Asks a provider with its own client library and prints what the library made of the answer.
//   node clients.mjs anthropic|chat|responses BASE_URL stream|whole KEY
// An error of the library's is printed as {"error": {"name", "status"}}.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const [api, baseURL, mode, apiKey] = process.argv.slice(2);
const stream = mode === "stream";
const options = { baseURL, apiKey, maxRetries: 0 };
const schema = { type: "object", properties: { n: { type: "integer" } } };

const readers = {
  async anthropic() {
    const client = new Anthropic(options);
    const request = {
      model: "claude-test", max_tokens: 100, messages: [{ role: "user", content: "Hi" }],
      tools: [{ name: "note", input_schema: schema }],
    };
    const message = stream ? await client.messages.stream(request).finalMessage()
      : await client.messages.create(request);
    return {
      text: message.content.filter((block) => block.type === "text").map((block) => block.text).join(""),
      thinking: message.content.filter((block) => block.type === "thinking").map((block) => block.thinking).join(""),
      calls: message.content.filter((block) => block.type === "tool_use").map((block) => [block.name, block.input]),
      stop: message.stop_reason, input: message.usage.input_tokens, output: message.usage.output_tokens,
    };
  },
  async chat() {
    const client = new OpenAI(options);
    const request = {
      model: "gpt-test", messages: [{ role: "user", content: "Hi" }],
      tools: [{ type: "function", function: { name: "note", parameters: schema } }],
    };
    const completion = stream
      ? await client.chat.completions.stream({ ...request, stream_options: { include_usage: true } })
        .finalChatCompletion()
      : await client.chat.completions.create(request);
    const [{ message, finish_reason }] = completion.choices;
    return {
      text: message.content ?? "", thinking: "",
      calls: (message.tool_calls ?? []).map((call) => [call.function.name, JSON.parse(call.function.arguments)]),
      stop: { stop: "end_turn", tool_calls: "tool_use" }[finish_reason] ?? finish_reason,
      input: completion.usage.prompt_tokens, output: completion.usage.completion_tokens,
    };
  },
  async responses() {
    const client = new OpenAI(options);
    const request = {
      model: "gpt-test", input: "Hi", store: false,
      tools: [{ type: "function", name: "note", parameters: schema, strict: false }],
    };
    const response = stream ? await client.responses.stream(request).finalResponse()
      : await client.responses.create(request);
    const calls = response.output.filter((item) => item.type === "function_call");
    return {
      text: response.output_text,
      thinking: response.output.filter((item) => item.type === "reasoning")
        .flatMap((item) => item.summary.map((part) => part.text)).join(""),
      calls: calls.map((call) => [call.name, JSON.parse(call.arguments)]),
      stop: calls.length > 0 ? "tool_use" : "end_turn",
      input: response.usage.input_tokens, output: response.usage.output_tokens,
    };
  },
};

try {
  console.log(JSON.stringify(await readers[api]()));
} catch (error) {
  console.log(JSON.stringify({ error: { name: error.constructor.name, status: error.status ?? null } }));
}
