// The official TypeScript SDKs against `stockade mcp`: lists and calls every tool. The client validates each message, and structured
// results against the schema of their tool. Version 2 is another package, and connects in three ways.
//
// usage: typescript_sdk.mjs PATH-OF-STOCKADE PATH-OF-CALLS   (NODE_PATH does not work for modules: run a copy beside node_modules)

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as v1 from "@modelcontextprotocol/sdk/client/index.js";
import * as v1Stdio from "@modelcontextprotocol/sdk/client/stdio.js";
import * as v2 from "@modelcontextprotocol/client";
import * as v2Stdio from "@modelcontextprotocol/client/stdio";

const [program, callsFile] = process.argv.slice(2);
const calls = JSON.parse(readFileSync(callsFile, "utf8"));

async function talk(name, { Client }, { StdioClientTransport }, options, structured) {
  const root = mkdtempSync(join(tmpdir(), "stockade-ts-"));
  const client = new Client({ name: "test", version: "1" }, { capabilities: {}, ...options });
  const args = ["mcp", "--root", root, ...(structured ? ["--structured"] : [])];
  try {
    await client.connect(new StdioClientTransport({ command: program, args }));
    const { tools } = await client.listTools();
    assert.deepEqual(new Set(tools.map((tool) => tool.name)), new Set(calls.map(([name]) => name)));
    for (const [name, call] of calls) {
      const result = await client.callTool({ name, arguments: call });
      assert(!result.isError, `${name}: ${JSON.stringify(result)}`);
      assert.equal(result.structuredContent !== undefined, structured, name);
    }
    const failed = await client.callTool({ name: "read", arguments: { path: "/etc/passwd" } });
    assert(failed.isError && failed.content[0].text.startsWith("C215 "), JSON.stringify(failed));
    const { resources } = await client.listResources();
    const file = resources.find((resource) => resource.uri.endsWith("/a.txt"));
    const { contents } = await client.readResource({ uri: file.uri });
    assert.equal(contents[0].text, "one\n2\nthree\n");
    console.log(`${name}, structured ${structured}: ${calls.length} calls`);
  } finally {
    await client.close();
    rmSync(root, { recursive: true, force: true });
  }
}

for (const structured of [false, true]) {
  await talk("typescript sdk 1", v1, v1Stdio, {}, structured);
  for (const mode of ["legacy", "auto", { pin: "2026-07-28" }]) {
    const name = `typescript sdk 2, ${mode.pin ?? mode}`;
    await talk(name, v2, v2Stdio, { versionNegotiation: { mode } }, structured);
  }
}
