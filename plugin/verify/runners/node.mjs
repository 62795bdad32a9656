// A reporter: what node's runner, which loads no test itself, is told by the
// processes that do. It writes that to a file of the verifier, and shows on
// stdout what the runner would show without the canaries.
import fs from 'node:fs';
import { Readable } from 'node:stream';
import { spec as Spec } from 'node:test/reporters';

const { nonce, token, report } = SETTINGS;
const file = fs.openSync(report, 'a');

async function* kept(source) {
  let canaries = 0;
  for await (const event of source) {
    const { type, data } = event;
    if (type === 'test:start' || type === 'test:pass' || type === 'test:fail') {
      const error = data.details?.error;
      fs.writeSync(file, token + JSON.stringify({
        type: type.slice(5), name: String(data.name), nesting: data.nesting, file: String(data.file ?? ''),
        skip: data.skip !== undefined || data.todo !== undefined,
        message: String(error?.cause?.message ?? error?.message ?? '').slice(0, 2000),
      }) + '\n');
      if (type === 'test:fail' && String(data.name).startsWith(nonce)) canaries++;
    }
    if (String(data?.name ?? '').startsWith(nonce)) continue;
    const count = /^(tests|fail) (\d+)$/.exec(data?.message ?? '');
    if (type === 'test:diagnostic' && count && data.nesting === 0) {
      yield { type, data: { ...data, message: `${count[1]} ${count[2] - canaries}` } };
      continue;
    }
    yield event;
  }
}

export default async function* (source) {
  yield* Readable.from(kept(source)).compose(typeof Spec === 'function' && Spec.prototype ? new Spec() : Spec);
}
