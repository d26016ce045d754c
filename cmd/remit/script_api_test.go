package main

import (
	"fmt"
	"io"
	"net/http"
)

// pets is a service that an OpenAPI document of the scripts describes. It wants a
// bearer token, and tells it to whoever asks.
func pets(mux *http.ServeMux) {
	guarded := func(pattern string, h http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.Header.Get("Authorization") != "Bearer pets-0123456789abcdef" {
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = io.WriteString(w, `{"error":"who are you?"}`)
				return
			}
			h(w, r)
		})
	}
	guarded("GET /v1/pets/{id}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		_, _ = fmt.Fprintf(w, `{"id":%q,"asked_with":%q}`, r.PathValue("id"), r.Header.Get("Authorization"))
	})
	guarded("POST /v1/pets", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"made":%s}`, b)
	})
	mux.HandleFunc("GET /pets.json", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"openapi":"3.0.3","info":{"title":"Pets","version":"1"},"servers":[{"url":"/v1"}],
			"paths":{"/pets/{id}":{"get":{"operationId":"getPet","parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"}}]}}}}`)
	})
}
