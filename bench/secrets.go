package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/bridle-dev/bridle/secrets"
)

const (
	secretCount = 100
	cleanSize   = 1 << 20
)

func secretFigures() []figure {
	return []figure{
		{
			name: "scrub/long", unit: "MB/s", floor: true, target: 400,
			about: "scrubbing clean text with 100 registered secrets of 8 to 40 bytes",
			open:  func(context.Context, plan) (*rig, error) { return scrubText(8, 40) },
		},
		{
			name: "scrub/short", unit: "MB/s", floor: true, target: 200,
			about: "the same with secrets of 4 to 7 bytes",
			open:  func(context.Context, plan) (*rig, error) { return scrubText(4, 7) },
		},
		{
			name: "scrub/json", unit: "MB/s", floor: true,
			about: "scrubbing clean JSON with escapes, with the secrets of scrub/long",
			open:  scrubJSON,
		},
		{
			name: "scrub/register", unit: "ms", target: 5,
			about: "registering 100 secrets of 40 bytes, and the first search",
			open:  registerSecrets,
		},
	}
}

// manySecrets are random values whose lengths go round from least to most.
func manySecrets(least, most int) []secrets.Value {
	var all []secrets.Value
	for i := range secretCount {
		sum := sha256.Sum256(fmt.Append(nil, "secret ", i))
		length := least + i%(most-least+1)
		all = append(all, secrets.NewValue(base64.StdEncoding.EncodeToString(sum[:])[:length]))
	}
	return all
}

func scrubberOf(values []secrets.Value) (*secrets.Scrubber, error) {
	s := secrets.NewScrubber()
	for _, v := range values {
		if err := s.AddSecret(v); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// cleanText is what pages and logs are made of: words, numbers, hashes, URLs.
func cleanText(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "2026-01-31T10:%02d:00Z GET https://shop.example/cart?id=%x 200. The item costs %d.99 and is in stock; "+
			"order it today and it ships tomorrow.\n", i%60, sha256.Sum256(fmt.Append(nil, i)), i%1000)
	}
	return b.String()[:size]
}

func scrubText(least, most int) (*rig, error) {
	s, err := scrubberOf(manySecrets(least, most))
	if err != nil {
		return nil, err
	}
	text := cleanText(cleanSize)
	return &rig{close: func() {}, subject: megabytes(len(text), func() error {
		if s.String(text) != text {
			return errors.New("clean text was changed")
		}
		return nil
	})}, nil
}

func scrubJSON(context.Context, plan) (*rig, error) {
	s, err := scrubberOf(manySecrets(8, 40))
	if err != nil {
		return nil, err
	}
	doc, err := json.Marshal(strings.SplitAfter(cleanText(cleanSize), ";"))
	if err != nil {
		return nil, err
	}
	return &rig{close: func() {}, subject: megabytes(len(doc), func() error {
		if clean := s.JSON(doc); &clean[0] != &doc[0] {
			return errors.New("clean JSON was changed")
		}
		return nil
	})}, nil
}

// megabytes samples how many millions of bytes a second op gets through, which
// does so many at once.
func megabytes(size int, op func() error) sampler {
	timed := timed(1, func(context.Context) error { return op() })
	return func(ctx context.Context, n int) (float64, error) {
		took, err := timed(ctx, n)
		return float64(size) / took, err
	}
}

func registerSecrets(context.Context, plan) (*rig, error) {
	values := manySecrets(40, 40)
	took := timed(1, func(context.Context) error {
		s, err := scrubberOf(values)
		if err == nil && s.String(values[0].Reveal()) != "<redacted>" {
			err = errors.New("a registered secret was not found")
		}
		return err
	})
	return &rig{close: func() {}, subject: func(ctx context.Context, n int) (float64, error) {
		micros, err := took(ctx, n)
		return micros / 1000, err
	}}, nil
}
