package render

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

func TestProfilesThatAreRefused(t *testing.T) {
	const good = smallProfile
	if _, err := ParseProfile([]byte(good)); err != nil {
		t.Fatal(err)
	}
	swap := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the small profile has no %q", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	job := func(lines string) string { return good + lines }
	for name, row := range map[string]struct{ profile, want string }{
		"A4.4: empty":                            {"", "it is empty"},
		"A4.4: only a comment":                   {"# nothing\n", "it is empty"},
		"A4.4: a list":                           {"- a\n", "cannot unmarshal"},
		"A4.4: not YAML":                         {"a: [", "did not find"},
		"A4.4: a second document":                {good + "---\nversion: 1\n", "more than one YAML document"},
		"A4.4: an empty second document":         {good + "---\n", "more than one YAML document"},
		"A4.4: too long":                         {good + strings.Repeat("#", MaxProfileBytes), "more than 65536"},
		"A1.5: an unknown key":                   {good + "colour: red\n", `unknown field "colour"`},
		"A1.5: an unknown key inside":            {job("  colour: red\n"), `unknown field "jobs[0].colour"`},
		"A1.5: a key in other letters":           {swap("name:", "Name:"), `unknown field "Name"`},
		"A1.5: a key twice":                      {good + "version: 1\n", "already"},
		"A1.5: a text for a number":              {swap("version: 1", `version: "1"`), "cannot unmarshal string"},
		"A1.5: a number for a text":              {swap("name: small", "name: 7"), "cannot unmarshal number"},
		"A4.4: another version":                  {swap("version: 1", "version: 2"), "version 2 is not known"},
		"A4.4: no version":                       {swap("version: 1", ""), "version 0 is not known"},
		"A4.4: no name":                          {swap("name: small", ""), `name ""`},
		"A4.4: a name with a line break":         {swap("name: small", `name: "a\nb"`), `name "a\nb"`},
		"A4.4: no image path":                    {swap("values: image", `values: ""`), "image.values"},
		"A4.4: an image path with an empty key":  {swap("values: image", "values: a..b"), "image.values"},
		"A4.4: an image path with an index":      {swap("values: image", `values: "a[0]"`), "image.values"},
		"A4.4: another image form":               {swap("reference", "whole"), `image.form "whole"`},
		"A4.4: no Jobs":                          {good[:strings.Index(good, "jobs:")], "jobs names none"},
		"A4.4: an empty list of Jobs":            {good[:strings.Index(good, "jobs:")] + "jobs: []\n", "jobs names none"},
		"A4.4: a slot that is no slot":           {swap("slot: api", "slot: API"), `slot "API"`},
		"A4.4: a slot of 21 characters":          {swap("slot: api", "slot: "+strings.Repeat("a", 21)), "at most 20"},
		"A4.4: a slot that leaves the directory": {swap("slot: api", "slot: ../x"), `slot "../x"`},
		"A4.4: a Job in the Secret's slot":       {swap("slot: api", "slot: secret"), "is a dependency's"},
		"A4.4: a Job in the policy's slot":       {swap("slot: api", "slot: network-policy"), "is a dependency's"},
		"A4.4: a slot twice":                     {job("- slot: api\n  from: {kind: Job, component: b, container: c}\n"), "named twice"},
		"A4.1: after itself":                     {job("  after: [api]\n"), "which no earlier job has"},
		"A4.1: after a later one":                {job("  after: [b]\n- slot: b\n  from: {kind: Job, component: b, container: c}\n"), "which no earlier job has"},
		"A4.1: after the Secret":                 {job("  after: [secret]\n"), "which no earlier job has"},
		"A4.4: a kind without a template":        {swap("kind: Deployment", "kind: ConfigMap"), `kind "ConfigMap" has no Pod template`},
		"A4.4: no component":                     {swap("component: api", `component: ""`), `component ""`},
		"A4.4: a component that is no label":     {swap("component: api", `component: "a b"`), `component "a b"`},
		"A4.4: no container":                     {swap("container: api", `container: ""`), `container ""`},
		"A4.4: an init container twice":          {job("  initContainers: [a, a]\n"), `"a" is named twice`},
		"A4.4: an empty word in a command":       {job("  startup: {command: [\"\"]}\n"), "empty word"},
		"A4.7: an identity that proves nothing":  {job("  identity: {}\n"), "neither command nor args"},
		"A4.3: a permission that there is not":   {job("  allow: [root]\n"), `"root" cannot be allowed`},
		"A4.3: a permission in other letters":    {job("  allow: [HostPath]\n"), `"HostPath" cannot be allowed`},
		"A4.4: a Secret without a component":     {swap("secret: {component: credentials}", "secret: {}"), `secret.component ""`},
		"A4.4: a Secret's key twice":             {swap("secret: {component: credentials}", "secret: {component: c, keys: [a, a]}"), `names "a" twice`},
		"A4.4: a Secret's key that is a path":    {swap("secret: {component: credentials}", "secret: {component: c, keys: [a/b]}"), `"a/b" cannot be`},
		"A4.4: a policy without a component":     {good + "networkPolicy: {optional: true}\n", `networkPolicy.component ""`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseProfile([]byte(row.profile))
			var refused *InputError
			if !errors.As(err, &refused) || refused.Input != "profile" {
				t.Fatalf("got %v, want the profile refused", err)
			}
			if !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, want one line with %q", err, row.want)
			}
		})
	}
}

// A4.4, A5.4: the built-in profile has the five slots of the specification.
func TestBuiltinProfile(t *testing.T) {
	profile, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	if profile.Secret == nil || profile.NetworkPolicy == nil || !profile.NetworkPolicy.Optional {
		t.Error("the dependencies are not a Secret and an optional NetworkPolicy")
	}
	var slots []identity.Slot
	for _, job := range profile.Jobs {
		slots = append(slots, job.Slot)
		if job.Slot != identity.SlotMigration && (job.Identity == nil || len(job.After) != 1 || job.After[0] != identity.SlotMigration) {
			t.Errorf("%s has no identity check, or does not wait for the migration", job.Slot)
		}
	}
	if diff := cmp.Diff([]identity.Slot{identity.SlotMigration, identity.SlotAPI, identity.SlotWorker}, slots); diff != "" {
		t.Error(diff)
	}
}

// FuzzParseProfile: whatever is read is refused in one line or is a profile
// that renders no surprise: its slots are slots and its order is an order.
func FuzzParseProfile(f *testing.F) {
	data, err := builtin.ReadFile(builtinPath)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(smallProfile))
	f.Add([]byte(smallProfile + "  allow: [hostPath]\n---\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("version: 1\n? {x: y}\n: z\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		profile, err := ParseProfile(data)
		if err != nil {
			var refused *InputError
			if !errors.As(err, &refused) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %q", err)
			}
			return
		}
		if len(profile.Jobs) == 0 || profile.digest != strictjson.Sum(data) {
			t.Fatalf("an incomplete profile was read: %+v", profile)
		}
		seen := map[identity.Slot]bool{}
		for _, job := range profile.Jobs {
			if !identity.ValidSlot(job.Slot) || seen[job.Slot] {
				t.Fatalf("slot %q", job.Slot)
			}
			for _, before := range job.After {
				if !seen[before] {
					t.Fatalf("%q comes after %q", job.Slot, before)
				}
			}
			seen[job.Slot] = true
		}
		// What was read says all that was written: it reads again as the same.
		again, err := json.Marshal(profile)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseProfile(again); err != nil {
			t.Fatalf("%s reads as %s, which is refused: %v", data, again, err)
		}
	})
}
