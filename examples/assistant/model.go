package main

import (
	"cmp"
	"os"

	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/anthropic"
	"github.com/bridle-dev/bridle/model/openai"
)

// What is asked if -model says nothing.
const (
	claude = "claude-sonnet-4-5"
	gpt    = "gpt-5"
)

// chooseModel takes the vendor whose key is set. Nothing is sent yet.
func chooseModel(name string) (model.Model, error) {
	if key := os.Getenv("ANTHROPIC_API_KEY"); key != "" {
		return anthropic.New(anthropic.Config{Model: cmp.Or(name, claude), APIKey: key,
			BaseURL: os.Getenv("ANTHROPIC_BASE_URL")})
	}
	key, url := os.Getenv("OPENAI_API_KEY"), os.Getenv("OPENAI_BASE_URL")
	if key == "" && url == "" {
		return nil, missing("no model: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or OPENAI_BASE_URL for a local server")
	}
	return openai.New(openai.Config{Model: cmp.Or(name, gpt), APIKey: key, BaseURL: url})
}
