package daemon

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/service/internal/retention"
)

type retentionTable struct {
	Users  []string   `toml:"users"`
	Path   folderText `toml:"path"`
	Age    ageText    `toml:"age"`
	MoveTo folderText `toml:"move_to"`
}

// folderText is a folder as users see it.
type folderText struct{ checked }

func (f *folderText) UnmarshalText(text []byte) error {
	f.text = path.Clean(string(text))
	if !path.IsAbs(f.text) {
		return at(text, fmt.Errorf("%q: a folder begins with /, which is the user's root", text))
	}
	return nil
}

// retention interprets a rule, which is one for each of its users.
func (f *configFile) retention(i int, t *retentionTable) (rules []*retention.Rule, err error) {
	at := entry("retention", i)
	above := strings.TrimSuffix(t.MoveTo.text, "/") + "/"
	switch {
	case len(t.Users) == 0:
		return nil, f.wrong(at, "users",
			errors.New("a rule needs users, in whose folder it applies"))
	case t.Path.text == "":
		return nil, f.wrong(at, "path", errors.New("a rule needs a folder"))
	case t.Age.Duration == 0:
		return nil, f.wrong(at, "age", errors.New("a rule needs the age from which on it applies"))
	case t.MoveTo.text != "" && strings.HasPrefix(t.Path.text+"/", above):
		return nil, f.wrong(at, "move_to", fmt.Errorf("%s is %s, or above it: files would stay",
			t.MoveTo.text, t.Path.text))
	}
	for _, user := range t.Users {
		rules = append(rules, &retention.Rule{User: user, Path: t.Path.text,
			Age: t.Age.Duration, MoveTo: t.MoveTo.text})
	}
	return rules, nil
}

func describeRules(rules []*retention.Rule) (text string) {
	for _, rule := range rules {
		text += fmt.Sprintf("%+v", *rule)
	}
	return text
}

// applyRules applies the rules of retention until ctx ends.
func (s *service) applyRules(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, rule := range s.started.rules {
		all.Go(func() {
			for ctx.Err() == nil {
				next := time.After(rule.Every())
				if !s.applyRule(ctx, rule) {
					next = time.After(min(rule.Every(), sweepAgain))
				}
				select {
				case <-next:
				case <-ctx.Done():
				}
			}
		})
	}
}

// applyRule applies a rule once, unless another node does. It ends before another node may begin.
// It reports whether there was a clock to apply it by: without one, no node's turn is used up.
func (s *service) applyRule(ctx context.Context, rule *retention.Rule) (clock bool) {
	log := s.Log.With("user", rule.User, "protocol", retention.Protocol)
	turn := rule.Every() * 9 / 10 // so that it is over when this node wants the next
	service := ctx
	ctx, cancel := context.WithTimeout(ctx, turn)
	defer cancel()
	now, ok := s.clock(ctx)
	if !ok {
		return false
	}
	if s.store != nil {
		mine, err := s.store.Turn(ctx, fmt.Sprintf("retention %+v", *rule), turn)
		if err != nil && service.Err() == nil {
			log.Warn("old files are not looked for", "path", rule.Path, "error", err)
		}
		if err != nil || !mine {
			return err == nil
		}
	}
	served, ok := s.Served()[rule.User]
	if !ok {
		log.Warn("there is no user whose old files could be looked for", "path", rule.Path)
		return true
	}
	files, policy, err := served.Open()
	if err != nil {
		log.Warn("old files are not looked for", "path", rule.Path, "error", err)
	}
	if files == nil {
		return true
	}
	named := func(e server.Event) server.Event {
		e.User = rule.User
		return e
	}
	reports := &server.Reporter{Logger: log, Protocol: retention.Protocol}
	if s.Events != nil {
		reports.Events = func(e server.Event) { s.Events(named(e)) }
	}
	if s.Gate != nil {
		reports.Gate = func(e server.Event) (func(error), error) { return s.Gate(named(e)) }
	}
	err = rule.Apply(ctx, now, files, policy, reports)
	if err != nil && service.Err() == nil {
		log.Warn("old files are not looked for", "path", rule.Path, "error", err)
	}
	return true
}
