package canon_test

import (
	"fmt"

	"github.com/remitrun/remit/internal/base/canon"
)

func ExampleMarshal() {
	v, err := canon.Decode([]byte(`{"b": 1.0, "a": [9007199254740993, "\u00e9"]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := canon.Marshal(v)
	fmt.Println(string(b), err)
	// Output: {"a":[9007199254740993,"é"],"b":1} <nil>
}
