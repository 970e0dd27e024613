// zeromq.js: sends each line of its input, which is base 16, as a message; prints what is answered. PROGRAM PORT.
const {Dealer} = require('zeromq');
const readline = require('readline');

async function main() {
  const socket = new Dealer({linger: 0});
  socket.connect(`tcp://127.0.0.1:${process.argv[2]}`);
  for await (const line of readline.createInterface({input: process.stdin})) {
    await socket.send(Buffer.from(line, 'hex'));
    const [answer] = await socket.receive();
    console.log(answer.toString('hex'));
  }
  socket.close();
}
main().catch((error) => { console.error(error); process.exit(1); });
