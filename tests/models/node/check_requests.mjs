// Checks requests against the types that the providers publish with their client libraries, which is how they
// document their APIs: every member known, of the right type, none missing.
//   node check_requests.mjs < [{"api": "anthropic"|"chat"|"responses", "body": {…}}, …]
// Prints what is wrong and exits with 1, or nothing.
import fs from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const types = {
  anthropic: "import('@anthropic-ai/sdk').Anthropic.MessageCreateParams",
  chat: "import('openai').OpenAI.ChatCompletionCreateParams",
  responses: "import('openai').OpenAI.Responses.ResponseCreateParams",
};
const requests = JSON.parse(fs.readFileSync(0, "utf8"));
const source = requests
  .map(({ api, body }, index) => `export const request${index}: ${types[api]} = ${JSON.stringify(body, null, 1)};\n`)
  .join("");
const name = fileURLToPath(new URL("requests.ts", import.meta.url));
const options = {
  strict: true, noEmit: true, skipLibCheck: true, target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, types: [],
};
const host = ts.createCompilerHost(options);
const { getSourceFile, fileExists, readFile } = host;
host.getSourceFile = (file, ...more) =>
  file === name ? ts.createSourceFile(file, source, options.target) : getSourceFile.call(host, file, ...more);
host.fileExists = (file) => file === name || fileExists.call(host, file);
host.readFile = (file) => (file === name ? source : readFile.call(host, file));
const program = ts.createProgram([name], options, host);
const problems = ts.getPreEmitDiagnostics(program).filter((problem) => problem.file?.fileName === name);
for (const problem of problems) {
  const { line } = problem.file.getLineAndCharacterOfPosition(problem.start);
  console.log(`${source.split("\n")[line]}\n  ${ts.flattenDiagnosticMessageText(problem.messageText, "\n  ")}`);
}
process.exit(problems.length > 0 ? 1 : 0);
