// Ask an agent from Node.js 24: JAATO_TOKEN=… node example.ts "What is in this directory?"
import { Client } from "./src/client/index.ts";

const { JAATO_URL: url = "ws://127.0.0.1:8391/v1/connect", JAATO_TOKEN = "" } = process.env;
const client = new Client({ url, token: () => JAATO_TOKEN, name: "example" });
const session = await client.create({ workspace: process.cwd() });
session.listen((event) => {
  if (event?.type === "agent.output" && event.source === "model") process.stdout.write(event.text);
  if (event?.type === "permission.requested") void session.answer(event, "n", { comment: "not from here" });
  if (event?.type === "turn.completed") void sent.then(() => client.close());
});
const sent = session.send(process.argv[2] ?? "Hello");
