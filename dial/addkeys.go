package dial

import (
	"strings"
	"time"

	"golang.org/x/crypto/ssh/agent"

	"github.com/usftp/usftp/internal/keyfile"
)

// addKeys is AddKeysToAgent: whether the agent gets the keys whose passphrases are typed, so that
// the next program need not ask. With "ask" it does not, since that would be one more question.
type addKeys struct {
	yes     bool
	confirm bool          // the agent asks before it signs
	life    time.Duration // 0 for ever
}

func readAddKeys(v string) (addKeys, error) {
	word, span, _ := strings.Cut(strings.ToLower(v), " ")
	switch word {
	case "", "no", "false", "ask":
		return addKeys{}, nil
	case "yes", "true":
		return addKeys{yes: true}, nil
	case "confirm":
	default:
		span = v
	}
	life, err := duration("AddKeysToAgent", strings.TrimSpace(span))
	return addKeys{yes: true, confirm: word == "confirm", life: life}, err
}

// keep gives a key to the agent.
func (k *keyring) keep(c *credential, p *keyfile.Private) {
	if k.agent == nil || !k.s.addKeys.yes || p.Signer == nil {
		return
	}
	err := k.agent.Add(agent.AddedKey{PrivateKey: p.Key, Comment: c.name,
		LifetimeSecs: uint32(k.s.addKeys.life / time.Second), ConfirmBeforeUse: k.s.addKeys.confirm})
	k.asker.log.Info("the key was offered to the agent", "file", c.name, "error", err)
}
