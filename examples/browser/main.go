// Browser lets an agent sign in to a web page in a real browser, through the
// Playwright MCP server:
//
//	go run ./examples/browser http://localhost:8080/login
//
// It needs Node and a browser. The model is scripted, so no key is needed: it
// reads the page and acts on what it finds there, as a real model would.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"regexp"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: browser URL of a page with the fields Email and Name and the button Sign in")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	server := mcp.Command("npx", "-y", "@playwright/mcp@0.0.83", "--headless", "--isolated")
	answer, err := signIn(ctx, server, os.Args[1], func(ev harness.Event) { fmt.Println(ev) })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
}

// signIn runs one turn and shows its calls as they happen.
func signIn(ctx context.Context, browser provider.Provider, url string, show func(harness.Event)) (answer string, err error) {
	h, err := harness.New(harness.Config{
		Name:  "browser",
		Model: script(url),
		Connections: connection.Set{"web": {
			Provider: browser,
			Policy:   connection.Policy{Deny: []string{"browser_run_code*", "browser_evaluate"}},
			Required: true,
		}},
	})
	if err != nil {
		return "", err
	}
	defer func() {
		if cerr := h.Close(context.WithoutCancel(ctx)); err == nil {
			err = cerr
		}
	}()
	turn, err := h.Execute(ctx, "Sign in as Dora", nil)
	if err != nil {
		return "", err
	}
	for ev, err := range turn.Events(ctx) {
		if err != nil {
			return "", err
		}
		if ev.Type == event.CallCompleted || ev.Type == event.Warning {
			show(ev)
		}
	}
	resp, err := turn.Wait(ctx)
	if err != nil {
		return "", err
	}
	return resp.Text, nil
}

// script reads the page before it acts: the elements it names are those that
// the snapshot lists.
func script(url string) model.Model {
	return scripted.New(
		scripted.CallTool("web_browser_navigate", map[string]any{"url": url}),
		scripted.CallTool("web_browser_snapshot", nil),
		scripted.Respond(func(req *model.Request) scripted.Round {
			page := lastResult(req)
			return scripted.CallTools(
				typing("Email", find(page, `textbox "Email"`), "dora@example.com"),
				typing("Name", find(page, `textbox "Name"`), "Dora"),
				scripted.Call{Name: "web_browser_click", Args: map[string]any{
					"element": "Sign in", "target": find(page, `button "Sign in"`)}},
			)
		}),
		scripted.CallTool("web_browser_snapshot", nil),
		scripted.Respond(func(req *model.Request) scripted.Round {
			m := regexp.MustCompile(`heading "([^"]*)"`).FindStringSubmatch(lastResult(req))
			if m == nil {
				return scripted.Say("The page shows no heading.")
			}
			return scripted.Say("The page says: " + m[1])
		}),
	)
}

func lastResult(req *model.Request) string { return req.Items[len(req.Items)-1].Text() }

func typing(element, target, text string) scripted.Call {
	return scripted.Call{Name: "web_browser_type", Args: map[string]any{"element": element, "target": target, "text": text}}
}

// find returns the snapshot's reference of an element.
func find(page, element string) string {
	m := regexp.MustCompile(regexp.QuoteMeta(element) + `.*\[ref=(\w+)\]`).FindStringSubmatch(page)
	if m == nil {
		return "missing " + element
	}
	return m[1]
}
