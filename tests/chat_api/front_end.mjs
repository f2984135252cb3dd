// A chat front end's library at the server: `node front_end.mjs URL TOKEN`. Prints one JSON line for each answer.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";

const [baseURL, apiKey] = process.argv.slice(2);
const headers = { "X-Conversation-Id": "front end" };
const jaato = createOpenAICompatible({ name: "jaato", baseURL, apiKey, headers, includeUsage: true });
const messages = [];

async function say(content) {
  messages.push({ role: "user", content });
  const result = streamText({ model: jaato("jaato"), messages, maxRetries: 0 });
  const found = { text: "", reasoning: "" };
  for await (const part of result.fullStream) {
    if (part.type === "text-delta") found.text += part.text;
    if (part.type === "reasoning-delta") found.reasoning += part.text;
    if (part.type === "error") found.error = part.error.statusCode;
  }
  messages.push({ role: "assistant", content: found.text });
  console.log(JSON.stringify({ ...found, reason: await result.finishReason, usage: (await result.usage).totalTokens }));
}

await say("What is in a.txt?");
await say("Thanks.");
const title = "### Task:\nGenerate a title.\n<chat_history>\nUSER: a\n</chat_history>";
console.log(JSON.stringify({ text: (await generateText({ model: jaato("jaato"), prompt: title })).text }));
try {
  await generateText({ model: jaato("nothing"), prompt: "Hi", maxRetries: 0 });
} catch (error) {
  console.log(JSON.stringify({ status: error.statusCode, message: error.message }));
}
