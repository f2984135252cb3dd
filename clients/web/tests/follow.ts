// Follows a session over a connection that is lost again and again; prints the state once enough turns are over.
// Arguments: the address of the server, the session, the number of turns, a message. The token is in JAATO_TOKEN.

import { Client } from "../src/client/index.ts";

const [url = "", id = "", turns = "1", text = ""] = process.argv.slice(2);
let lost = 0;

/** A connection of a few frames. */
class ShortWebSocket extends WebSocket {
  constructor(address: string) {
    super(address);
    const until = 3 + Math.floor(Math.random() * 4);
    let frames = 0;
    this.addEventListener("message", () => {
      frames += 1;
      if (frames !== until) return;
      lost += 1;
      this.close();
    });
  }
}
globalThis.WebSocket = ShortWebSocket;

const client = new Client({ url, token: () => process.env["JAATO_TOKEN"] ?? "" });
const session = await client.attach(id);
const send = text ? session.send(text) : Promise.resolve();
const look = setInterval(() => {
  if (session.state.turns < Number(turns) || session.state.open_turn !== null) return;
  clearInterval(look);
  void send.then(() => {
    process.stdout.write(JSON.stringify({ lost, state: session.state }));
    client.close();
  });
}, 50);
