// Signs and verifies deliveries with the library that the first argument is the
// entry of. Cases come as a JSON array on standard input, and what came of them
// goes to standard output in the same order. Bodies are base64.
const { Webhook } = require(process.argv[2]);

function run({ secret, id, at, body, signature }) {
  const hook = new Webhook(secret);
  const text = Buffer.from(body, "base64").toString();
  if (!signature) {
    return hook.sign(id, new Date(at * 1000), text);
  }
  const headers = { "webhook-id": id, "webhook-timestamp": String(at), "webhook-signature": signature };
  try {
    hook.verify(text, headers);
    return "verified";
  } catch (err) {
    // Once the signature is verified the library parses the body, which may be
    // no JSON.
    return err.name === "SyntaxError" ? "verified" : err.name;
  }
}

let input = "";
process.stdin.on("data", (part) => (input += part));
process.stdin.on("end", () => process.stdout.write(JSON.stringify(JSON.parse(input).map(run))));
