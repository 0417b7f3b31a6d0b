// Shared by the programs: the gateway's address and key, the tool, and a JSON line for each call's answer.

export const url = process.env.ENGINEHOUSE_URL, key = process.env.ENGINEHOUSE_KEY, v1 = `${url}/v1`;
export const hello = [{ role: "user", content: "hello" }];
export const parameters = {
  type: "object", properties: { a: { type: "integer" } }, required: ["a"], additionalProperties: false,
};
export const texts = ["the cat", "a mat"];
export const query = "cat mat", documents = ["the dog", "the cat sat on the mat"];
export const added = [];

export function add({ a }) {
  added.push(a);
  return "2";
}

export async function list(events, piece) {
  const pieces = [];
  for await (const event of events) {
    const text = piece(event);
    if (text) pieces.push(text);
  }
  return pieces;
}

export async function run(calls) {
  for (const call of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(calls)) {
    added.length = 0;
    try {
      console.log("\n" + JSON.stringify({ call, answer: await calls[call]() }));
    } catch (error) {
      console.log("\n" + JSON.stringify({ call, error: `${error.name}: ${error.message}`.slice(0, 2000) }));
    }
  }
  process.exit(0);
}
