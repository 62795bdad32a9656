package inflate

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// deflate makes a stream at a level of compress/flate's.
func deflate(t rapid.TB, data []byte, level int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zlib.NewWriterLevel(&b, level)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// texts of the kinds that make short and long codes, near and far matches.
func texts() map[string][]byte {
	r := rand.New(rand.NewPCG(3, 4))
	noise := make([]byte, 70_000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	skewed := make([]byte, 0, 200_000)
	for c := byte(0); c < 28; c++ { // frequencies that make codes of 15 bits
		skewed = append(skewed, bytes.Repeat([]byte{c}, 1<<min(c/2, 13))...)
	}
	r.Shuffle(len(skewed), func(i, j int) { skewed[i], skewed[j] = skewed[j], skewed[i] })
	far := slices.Concat(noise[:32_000], bytes.Repeat([]byte("x"), 700), noise[:32_000])
	return map[string][]byte{
		"empty": {}, "one": []byte("a"), "run": bytes.Repeat([]byte("a"), 100_000), "noise": noise,
		"skewed": skewed, "far": far, "words": bytes.Repeat([]byte("func (d *Decoder) take(e uint32) (uint32, bool)\n"), 900),
	}
}

func TestZlibExpandsWhatWasDeflated(t *testing.T) {
	var d Decoder
	for name, data := range texts() {
		for _, level := range []int{flate.HuffmanOnly, flate.NoCompression, flate.BestSpeed, flate.DefaultCompression, flate.BestCompression} {
			src := deflate(t, data, level)
			got := make([]byte, len(data))
			n, err := d.Zlib(got, append(src[:len(src):len(src)], "more"...))
			if err != nil || n != len(src) || !bytes.Equal(got, data) {
				t.Errorf("%s, level %d: %d of %d bytes read, %v", name, level, n, len(src), err)
			}
		}
	}
}

func TestZlibExpandsAnything(t *testing.T) {
	var d Decoder
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 12), 1, 30).Draw(t, "words")
		var data []byte
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(words)-1), 0, 400).Draw(t, "text") {
			data = append(data, words[i]...)
		}
		src := deflate(t, data, rapid.IntRange(-2, 9).Draw(t, "level"))
		got := make([]byte, len(data))
		if n, err := d.Zlib(got, src); err != nil || n != len(src) || !bytes.Equal(got, data) {
			t.Fatalf("%d of %d bytes read, %v", n, len(src), err)
		}
	})
}

func TestZlibRefusesWhatIsSpoilt(t *testing.T) {
	var d Decoder
	data := texts()["words"][:5000]
	src := deflate(t, data, 6)
	got := make([]byte, len(data))
	for i := range src {
		if _, err := d.Zlib(got, src[:i]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%d of %d bytes were enough: %v", i, len(src), err)
		}
		for bit := range 8 {
			bad := slices.Clone(src)
			bad[i] ^= 1 << bit
			if _, err := d.Zlib(got, bad); err == nil && !bytes.Equal(got, data) {
				t.Fatalf("bit %d of byte %d makes other data", bit, i)
			}
		}
	}
	for _, size := range []int{0, len(data) - 1, len(data) + 1, len(data) + 1000} {
		if _, err := d.Zlib(make([]byte, size), src); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes came out of %d: %v", size, len(data), err)
		}
	}
}

// FuzzZlib compares with compress/zlib, which accepts the same streams.
func FuzzZlib(f *testing.F) {
	for _, data := range texts() {
		data = data[:min(len(data), 2000)]
		for _, level := range []int{-2, 0, 1, 9} {
			f.Add(deflate(f, data, level), len(data))
		}
	}
	f.Add([]byte{0x78, 0x01, 0x05, 0xc1, 0x01, 0, 0, 0, 0, 0, 0, 0}, 1)
	var d Decoder
	f.Fuzz(func(t *testing.T, src []byte, size int) {
		if size < 0 || size > 1<<20 {
			return
		}
		got := make([]byte, size)
		n, err := d.Zlib(got, src)
		in := bytes.NewReader(src)
		var want []byte
		r, werr := zlib.NewReader(in)
		if werr == nil {
			want, werr = io.ReadAll(io.LimitReader(r, 1<<21))
		}
		if err == nil && (werr != nil || !bytes.Equal(got, want) || n != len(src)-in.Len()) {
			t.Fatalf("%d bytes read; compress/zlib says %v", n, werr)
		}
		if err != nil && werr == nil && len(want) == size {
			t.Fatalf("refused what compress/zlib takes: %v", err)
		}
	})
}
