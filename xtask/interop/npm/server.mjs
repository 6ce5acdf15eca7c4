// A server with one of each: a tool, a tool with progress, a resource, a prompt.
import { createServer } from 'node:http';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { toNodeHandler } from '@modelcontextprotocol/node';
import * as z from 'zod';

function newServer() {
  const server = new McpServer({ name: 'interop', version: '1.0.0' });
  server.registerTool('add', { description: 'Add two numbers', inputSchema: z.object({ a: z.number(), b: z.number() }) },
    ({ a, b }) => ({ content: [{ type: 'text', text: String(a + b) }] }));
  server.registerTool('count', { description: 'Count, and report each step', inputSchema: z.object({ to: z.number() }) },
    async ({ to }, context) => {
      const progressToken = context.mcpReq._meta?.progressToken;
      for (let step = 1; step <= to && progressToken !== undefined; step++) {
        await context.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: step, total: to } });
      }
      return { content: [{ type: 'text', text: `counted to ${to}` }] };
    });
  server.registerResource('tide', 'note://tide', {}, (uri) => ({ contents: [{ uri: uri.href, text: 'high at noon' }] }));
  server.registerPrompt('greet', { argsSchema: z.object({ name: z.string() }) },
    ({ name }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `Say hello to ${name}.` } }] }));
  return server;
}

createServer(toNodeHandler(createMcpHandler(newServer))).listen(Number(process.argv[2]), '127.0.0.1');
