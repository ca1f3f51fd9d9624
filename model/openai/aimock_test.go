package openai_test

import (
	"testing"

	"github.com/bridle-dev/bridle/internal/peers"
	"github.com/bridle-dev/bridle/model/internal/replay"
)

func TestAimock(t *testing.T) {
	url := peers.StartAimock(t, replay.Fixtures())
	for api := range apis() {
		t.Run("api="+string(api), func(t *testing.T) { replay.Aimock(t, maker(api), url) })
	}
}
