// A reporter: what node's runner, which loads no test itself, is told by the
// processes that do.
const token = TOKEN;
export default async function* (source) {
  for await (const { type, data } of source) {
    if (type !== 'test:start' && type !== 'test:pass' && type !== 'test:fail') continue;
    const error = data.details?.error;
    yield token + JSON.stringify({
      type: type.slice(5), name: String(data.name), nesting: data.nesting, file: String(data.file ?? ''),
      skip: data.skip !== undefined || data.todo !== undefined,
      message: String(error?.cause?.message ?? error?.message ?? '').slice(0, 2000),
    }) + '\n';
  }
}
