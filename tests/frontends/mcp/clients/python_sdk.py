"""The official Python SDK against `stockade mcp`: lists and calls every tool in every way of connecting that it knows, and holds
arguments and results against the schemas.

usage: python_sdk.py PATH-OF-STOCKADE"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

import jsonschema
from mcp import Client, StdioServerParameters

CALLS = json.loads((Path(__file__).parent / "calls.json").read_text())


def text(result):
    return "".join(block.text for block in result.content)


async def talk(program, mode, structured):
    with tempfile.TemporaryDirectory() as root:
        arguments = ["mcp", "--root", root] + (["--structured"] if structured else [])
        async with Client(StdioServerParameters(command=program, args=arguments), mode=mode) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {name for name, _ in CALLS}, set(tools)
            for tool in tools.values():
                jsonschema.Draft202012Validator.check_schema(tool.input_schema)
                assert (tool.output_schema is not None) == structured
            for name, call in CALLS:
                jsonschema.validate(call, tools[name].input_schema)
                result = await client.call_tool(name, call)
                assert not result.is_error, (name, text(result))
                if structured:
                    jsonschema.validate(result.structured_content, tools[name].output_schema)
                else:
                    assert result.structured_content is None and text(result), name
            failed = await client.call_tool("read", {"path": "../outside"})
            assert failed.is_error and text(failed).startswith("C215 "), text(failed)
            unknown = await client.call_tool("nothing", {})
            assert unknown.is_error and text(unknown).startswith("C210 "), text(unknown)
            resources = (await client.list_resources()).resources
            file = next(resource for resource in resources if str(resource.uri).endswith("/a.txt"))
            contents = (await client.read_resource(str(file.uri))).contents
            assert contents[0].text == "one\n2\nthree\n", contents
            assert (await client.list_resource_templates()).resource_templates
            return client.protocol_version


async def main():
    for mode in ("legacy", "auto", "2026-07-28"):
        for structured in (False, True):
            version = await asyncio.wait_for(talk(sys.argv[1], mode, structured), 60)
            print(f"python sdk, {mode}, structured {structured}: {len(CALLS)} calls, protocol {version}")


asyncio.run(main())
