package typed

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// decode stores arguments in the value that into points to, as encoding/json would, but
// without a detour over JSON text: large strings are not copied. It is stricter: names
// must match exactly, unknown names are errors, and so is null where A has no any. 1.0
// and 1e2 are whole numbers. A pointer tells an absent argument from a zero one.
func decode(args tool.Args, into any) error {
	if args == nil {
		args = tool.Args{}
	}
	return store(reflect.ValueOf(into).Elem(), map[string]any(args), "")
}

// store stores one decoded JSON value; field is its path, for errors.
func store(to reflect.Value, v any, field string) error {
	if special(to) {
		return storeJSON(to, v, field)
	}
	switch to.Kind() {
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		return store(to.Elem(), v, field)
	case reflect.Struct:
		return storeStruct(to, v, field)
	case reflect.Slice:
		return storeSlice(to, v, field)
	case reflect.Map:
		return storeMap(to, v, field)
	case reflect.Int, reflect.Int64:
		return storeInt(to, v, field)
	case reflect.String:
		if s, ok := v.(string); ok {
			to.SetString(s)
			return nil
		}
	case reflect.Bool:
		if b, ok := v.(bool); ok {
			to.SetBool(b)
			return nil
		}
	case reflect.Interface:
		if to.NumMethod() == 0 {
			if v != nil {
				to.Set(reflect.ValueOf(v))
			}
			return nil
		}
	default:
		return storeJSON(to, v, field)
	}
	return wrongType(v, field)
}

var number = reflect.TypeFor[json.Number]()

// special reports whether a value reads its own JSON. Numbers take their canonical form.
func special(to reflect.Value) bool {
	if to.Type() == number {
		return true
	}
	if !to.CanAddr() || to.Type().PkgPath() == "" {
		return false
	}
	_, ok := to.Addr().Interface().(json.Unmarshaler)
	return ok
}

func storeJSON(to reflect.Value, v any, field string) error {
	raw, err := canon.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, to.Addr().Interface())
	}
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return wrongType(v, strings.TrimSuffix(field+"."+wrong.Field, "."))
	}
	return fault.New(fault.ArgsInvalid, "%s", strings.TrimPrefix(err.Error(), "json: ")).In(field)
}

func storeStruct(to reflect.Value, v any, field string) error {
	object, ok := v.(map[string]any)
	if !ok {
		return wrongType(v, field)
	}
	return eachMember(object, func(name string, v any) error {
		member := fieldNamed(to, name)
		if !member.IsValid() {
			return fault.New(fault.ArgsInvalid, "unknown argument %.100q", join(field, name))
		}
		return store(member, v, join(field, name))
	})
}

// eachMember calls f for each member. Of several errors it returns the one of the first
// name in order, so that equal arguments always give equal errors.
func eachMember(object map[string]any, f func(name string, v any) error) (failed error) {
	var first string
	for name, v := range object {
		if err := f(name, v); err != nil && (failed == nil || name < first) {
			first, failed = name, err
		}
	}
	return failed
}

// fieldNamed finds the field of a struct, or of one embedded in it, by its JSON name.
func fieldNamed(s reflect.Value, name string) reflect.Value {
	t := s.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct {
			if found := fieldNamed(s.Field(i), name); found.IsValid() {
				return found
			}
		} else if tag == name && f.IsExported() {
			return s.Field(i)
		}
	}
	return reflect.Value{}
}

func storeSlice(to reflect.Value, v any, field string) error {
	list, ok := v.([]any)
	if !ok {
		return wrongType(v, field)
	}
	to.Set(reflect.MakeSlice(to.Type(), len(list), len(list)))
	for i, e := range list {
		if err := store(to.Index(i), e, field+"["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
	}
	return nil
}

func storeMap(to reflect.Value, v any, field string) error {
	object, ok := v.(map[string]any)
	if !ok || to.Type().Key().Kind() != reflect.String {
		return wrongType(v, field)
	}
	to.Set(reflect.MakeMapWithSize(to.Type(), len(object)))
	return eachMember(object, func(name string, v any) error {
		member := reflect.New(to.Type().Elem()).Elem()
		if err := store(member, v, join(field, name)); err != nil {
			return err
		}
		to.SetMapIndex(reflect.ValueOf(name).Convert(to.Type().Key()), member)
		return nil
	})
}

// storeInt stores a whole number; JSON Schema counts 1.0 and 1e3 as such.
func storeInt(to reflect.Value, v any, field string) error {
	n, ok := v.(json.Number)
	if !ok {
		return wrongType(v, field)
	}
	i, err := n.Int64()
	if err != nil {
		x, ferr := n.Float64()
		if ferr != nil || x != math.Trunc(x) || math.Abs(x) > 1<<53 {
			return fault.New(fault.ArgsInvalid, "%.100s is not a whole number in range", n).In(field)
		}
		i = int64(x)
	}
	if to.OverflowInt(i) {
		return fault.New(fault.ArgsInvalid, "%.100s is not a whole number in range", n).In(field)
	}
	to.SetInt(i)
	return nil
}

func wrongType(v any, field string) error {
	return fault.New(fault.ArgsInvalid, "unexpected %s", kindOf(v)).In(field)
}

// kindOf names the JSON type of a value.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}
