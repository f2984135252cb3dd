// Confines a failure to draw one part, such as an entry of a newer server, to that part.

import { Component, type ComponentChildren } from "preact";

import { oneLine } from "./text.ts";

export class Boundary extends Component<{ children: ComponentChildren }, { failure: string }> {
  override state = { failure: "" };

  override componentDidCatch(error: unknown): void {
    this.setState({ failure: oneLine(String(error), 200) });
  }

  override render({ children }: { children: ComponentChildren }): ComponentChildren {
    return this.state.failure ? <p class="notice error" role="alert">This cannot be shown here: {this.state.failure}</p> : children;
  }
}
