"""A server with one of each: a tool, one with progress, one that asks the client back, a resource, a prompt."""

import sys

from fastmcp import Context, FastMCP

mcp = FastMCP("interop")


@mcp.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool
async def count(to: int, ctx: Context) -> str:
    """Count, and report each step."""
    for step in range(1, to + 1):
        await ctx.report_progress(progress=step, total=to)
    return f"counted to {to}"


@mcp.tool
async def ping_back(ctx: Context) -> str:
    """Ask the client for a sign of life. Only the older versions of the protocol let a server ask."""
    await ctx.session.send_ping()
    return "the client answered"


@mcp.resource("note://tide")
def tide() -> str:
    """When the water is high."""
    return "high at noon"


@mcp.prompt
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Say hello to {name}."


mcp.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
