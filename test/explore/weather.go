package explore

import (
	"slices"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// Weather is what goes wrong while a cleanup runs, from its request At on, counted
// from 1. Reborn and NoKubeSystem last from its beginning to its end, and have none.
type Weather struct {
	What string
	At   int
}

// The kinds of weather.
const (
	// Fair: nothing goes wrong.
	Fair = ""
	// Gateway: the request and the three after it are answered by a gateway,
	// with a 404 page for a read; nothing reaches the API server.
	Gateway = "gateway"
	// LostReply: the request is carried out and its answer is lost.
	LostReply = "lost-reply"
	// OtherCluster: from this request on another, empty cluster answers.
	OtherCluster = "other-cluster"
	// StrangerOrphans, StrangerForeground and StrangerBackground: somebody
	// deletes every Job there is, with that propagation.
	StrangerOrphans    = "stranger-orphans"
	StrangerForeground = "stranger-foreground"
	StrangerBackground = "stranger-background"
	// StrangerReplaces: somebody deletes every object of ours outright and
	// makes copies.
	StrangerReplaces = "stranger-replaces"
	// Arrival: every late create arrives.
	Arrival = "arrival"
	// Reborn: the namespace was finalized by force and made again.
	Reborn = "namespace-reborn"
	// NoKubeSystem: kube-system may no longer be read.
	NoKubeSystem = "kube-system-forbidden"
)

func kinds() []string {
	return []string{
		Gateway, LostReply, OtherCluster, StrangerOrphans, StrangerForeground, StrangerBackground,
		StrangerReplaces, Arrival, Reborn, NoKubeSystem,
	}
}

// Storm plays one cleanup in each kind of weather, from each of its requests on,
// and a second one in fair weather on what the first leaves.
func (e *Explorer) Storm(image *Image, world *World) {
	for _, kind := range kinds() {
		at := 1
		if kind == Reborn || kind == NoKubeSystem {
			at = 0
		}
		for ; ; at++ {
			w := world.Clone()
			sent := e.play(image, w, Weather{What: kind, At: at}, nowhere{}, func(*World) {})
			for i := range w.Late {
				w.Late[i].Afterwards = false
			}
			e.Judge(image, w, 0)
			if at == 0 || at >= sent {
				break
			}
		}
	}
}

// Weathers plays every kind of weather in about so many of the album's thin worlds,
// spread evenly over them. It returns in how many, and of how many.
func (e *Explorer) Weathers(album *Album, about int) (stormy, of int) {
	var work []func()
	starts, of := e.sample(album, about)
	for _, s := range starts {
		work = append(work, func() { e.Storm(s.image, s.world) })
	}
	sideBySide(work)
	return len(starts), of
}

// strike lets the weather do what it does, and says what becomes of the request
// that has just arrived.
func (p *Play) strike() string {
	p.requests++
	hit := p.hit()
	p.struck = p.struck || hit != Fair
	return hit
}

func (p *Play) hit() string {
	n, w := p.requests, p.weather
	switch w.What {
	case Gateway:
		if w.At > 0 && n >= w.At && n < w.At+4 {
			return w.What
		}
	case OtherCluster:
		if w.At > 0 && n >= w.At {
			return w.What
		}
	case LostReply:
		if n == w.At {
			return w.What
		}
	default:
		if n == w.At && p.world.meddle(w.What) {
			p.struck = true
			p.changed(p.world)
		}
	}
	return Fair
}

// meddle is what somebody else does at once; it reports whether it did anything.
func (w *World) meddle(what string) bool {
	before := w.Hash()
	for _, o := range slices.Clone(w.Objects) {
		if how, deletes := strangerDeletes(what); deletes && o.Kind == "Job" {
			_ = w.Delete(o.Object, how)
		}
		if what == StrangerReplaces && o.Ours && o.Kind != "Pod" {
			i := w.find(o.Object)
			w.Objects[i] = Object{Object: o.Object, Nonce: o.Nonce}
			w.Objects[i].UID = "0badf00d" + o.UID[8:]
		}
	}
	if what == Arrival {
		for len(w.Late) > 0 {
			w.arrive(w.Late[0].UID)
		}
	}
	return w.Hash() != before
}

// strangerDeletes returns the propagation with which a stranger deletes Jobs.
func strangerDeletes(what string) (kube.Propagation, bool) {
	switch what {
	case StrangerOrphans:
		return kube.Orphan, true
	case StrangerForeground:
		return kube.Foreground, true
	case StrangerBackground:
		return kube.Background, true
	default:
		return "", false
	}
}

// otherCluster is what answers when a load balancer has gone astray.
func (p *Play) otherCluster() *World {
	return &World{Cluster: identity.Cluster{NamespaceUID: "0badc0de-0000-4000-8000-000000000001", KubeSystemUID: "0badc0de-0000-4000-8000-000000000002"}}
}

// serving is the world that answers, nil when none does.
func (p *Play) serving(hit string) *World {
	switch hit {
	case Gateway:
		return nil
	case OtherCluster:
		return p.otherCluster()
	default:
		return p.world
	}
}
