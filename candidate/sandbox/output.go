package sandbox

import "strconv"

func appendDropped(o Output) []byte {
	b := append([]byte{}, o.Head...)
	b = append(b, "\n… "+strconv.FormatInt(o.Dropped, 10)+" bytes left out …\n"...)
	return append(b, o.Tail...)
}
