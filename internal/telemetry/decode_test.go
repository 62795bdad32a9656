package telemetry

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// fields reads one message of protocol buffers.
func fields(t *testing.T, b []byte, take func(field int, number uint64, bytes []byte)) {
	t.Helper()
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			t.Fatal("no key")
		}
		b = b[n:]
		switch key & 7 {
		case varint:
			v, n := binary.Uvarint(b)
			if n <= 0 {
				t.Fatal("no number")
			}
			take(int(key>>3), v, nil)
			b = b[n:]
		case fixed64:
			take(int(key>>3), binary.LittleEndian.Uint64(b), nil)
			b = b[8:]
		case length:
			v, n := binary.Uvarint(b)
			if n <= 0 || uint64(len(b)-n) < v {
				t.Fatal("no bytes")
			}
			take(int(key>>3), 0, b[n:n+int(v)])
			b = b[n+int(v):]
		default:
			t.Fatalf("wire type %d", key&7)
		}
	}
}

// decode prints a request: the resource, and each span in a line.
func decode(t *testing.T, request []byte) string {
	var out strings.Builder
	fields(t, request, func(field int, _ uint64, source []byte) {
		fields(t, source, func(field int, _ uint64, b []byte) {
			if field == 1 {
				fmt.Fprintf(&out, "resource%s\n", attributes(t, b, 1))
				return
			}
			fields(t, b, func(field int, _ uint64, s []byte) {
				if field == 2 {
					out.WriteString(line(t, s))
				}
			})
		})
	})
	return out.String()
}

func line(t *testing.T, s []byte) string {
	var name, id, parent, trace string
	var begin, end uint64
	failed := ""
	fields(t, s, func(field int, n uint64, b []byte) {
		switch field {
		case 1:
			trace = hex.EncodeToString(b)
		case 2:
			id = hex.EncodeToString(b)
		case 4:
			parent = " in " + hex.EncodeToString(b)
		case 5:
			name = string(b)
		case 7:
			begin = n
		case 8:
			end = n
		case 15:
			failed = " failed"
		}
	})
	return fmt.Sprintf("%s %s/%s%s %s %v%s%s\n", name, trace, id, parent, time.Unix(0, int64(begin)).UTC().Format(time.TimeOnly), time.Duration(end-begin), failed, attributes(t, s, 9))
}

func attributes(t *testing.T, message []byte, number int) string {
	var out strings.Builder
	fields(t, message, func(field int, _ uint64, kv []byte) {
		if field != number {
			return
		}
		fields(t, kv, func(field int, _ uint64, b []byte) {
			if field == 1 {
				fmt.Fprintf(&out, " %s=", b)
				return
			}
			fields(t, b, func(field int, n uint64, text []byte) {
				switch field {
				case 1:
					fmt.Fprintf(&out, "%q", text)
				case 3:
					fmt.Fprintf(&out, "%d", int64(n))
				case 4:
					fmt.Fprintf(&out, "%v", math.Float64frombits(n))
				}
			})
		})
	})
	return out.String()
}
