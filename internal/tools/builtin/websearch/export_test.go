package websearch

// Read reads an answer as a search of that kind does, and gives what the caller is shown.
func Read(kind string, body []byte, most int) ([]any, error) {
	list, err := service{o: Options{Kind: kind}}.read(body)
	return shown(list, most), err
}
